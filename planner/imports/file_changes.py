"""Changes of an imported file, in its own settings: single changes, and the best of all; each is read again and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lcplan.formats.nearest import divisors
from lcplan.strategy import KNOBS, Strategy
from planner.imports.advice import WORTH_SAYING, Advice, Change
from planner.imports.proposals import proposals
from planner.imports.trials import Question, Setup, Trial, read_again, tried, try_strategy
from planner.imports.verdict import of_the_file
from planner.trainers.changes.interface import Moves, Settings, Switch, plain

REFUSED_OF_A_KIND = 2
"""Refused strategies of one scheme after which no more of it are read again."""
JUDGED = 12
"""Most strategies of one setup that are read again and judged."""
SLOWER = 1.5
"""Slowest step that a mesh with more free memory may take, in steps of the file."""
CHUNK_TOKENS = 1024
"""Most tokens of a chunk where the loss of the training script is not in chunks."""
TIERS: tuple[Moves, ...] = ("", "optimizer", "all", "rounded")
"""State on the host comes late: its transfer isn't priced, so no time compares it. State in bf16 trains otherwise."""


def file_advice(question: Question) -> Advice:
    """Find changes that make the file faster, or that make it fit."""
    limit = question.current.estimate["step_s"] * (1 - WORTH_SAYING) if question.fits else float("inf")
    switches = question.form.switches(question.imported, question.job)
    switches += () if any(switch.chunks for switch in switches) else _chunked(question)
    best = _best(question, switches, limit=limit)
    single = [trial for trial in _single(question, switches, limit=limit) if _good(trial, limit)]
    single.sort(key=lambda trial: trial.step_s)
    found = [_change(question, trial) for trial in single]
    together = None if best is None else _change(question, best)
    if single and (best is None or single[0].step_s < best.step_s):
        together = found[0]
    return Advice(together, tuple(change for change in found if together is None or change.what != together.what))


def _good(trial: Trial | None, limit: float) -> bool:
    return trial is not None and trial.verdict.fits and trial.step_s < limit


def _chunked(question: Question) -> tuple[Switch, ...]:
    """A loss in chunks, where the training script's is whole and its files have no key for it."""
    if question.imported.program.loss != "whole" or "loss_chunk_tokens" not in question.form.script:
        return ()
    local = question.request.workload.seq_len // question.current.strategy.mesh.context
    chunk = max(size for size in divisors(local) if size <= CHUNK_TOKENS)
    return (Switch(options={"loss_chunk_tokens": (chunk,)}),)


def _best(question: Question, switches: tuple[Switch, ...], *, limit: float) -> Trial | None:
    """Return the fastest change that needs the fewest parts of the state on the host."""
    free = [switch for switch in switches if not switch.moves]
    for tier in TIERS:
        movers = [[]] if not tier else [[switch] for switch in switches if switch.moves == tier]
        groups = [[], *([switch] for switch in free), free] if len(free) > 1 else [[], *([switch] for switch in free)]
        found = [_of_group(question, [*group, *mover], limit=limit) for mover in movers for group in groups]
        fitting = [one for one in found if one is not None]
        if fitting:
            fastest = min(one.step_s for one in fitting)
            near = [one for one in fitting if one.step_s <= fastest * (1 + WORTH_SAYING)]
            return min(near, key=lambda one: (len(one.settings) + len(one.options), one.step_s))
        if question.fits:
            return None
    return None


def _of_group(question: Question, switches: list[Switch], *, limit: float) -> Trial | None:
    setup = _with(question, switches)
    if setup is None:
        return None
    left = JUDGED
    refused: Counter[tuple[str, bool, bool]] = Counter()
    for strategy in proposals(question, setup, below_s=limit):
        kind = (strategy.scheme, strategy.mesh.context > 1, strategy.mesh.tensor > 1)
        if refused[kind] >= REFUSED_OF_A_KIND:
            continue
        trial = try_strategy(question, setup, strategy)
        if trial is not None and _good(trial, limit):
            return trial
        refused[kind] += trial is None or bool(trial.verdict.refusals)
        left -= 1
        if not left:
            break
    return None


def _with(question: Question, switches: list[Switch]) -> Setup | None:
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for switch in switches:
        settings |= dict(switch.settings)
        options |= dict(switch.options)
    setup = read_again(question, settings, options)
    return None if setup is None else replace(setup, moves=any(switch.moves in ("optimizer", "all") for switch in switches))


def _single(question: Question, switches: tuple[Switch, ...], *, limit: float) -> Iterator[Trial]:
    """Yield one change each: a switch, a policy, more microbatches, another scheme, another mesh."""
    own = read_again(question, {}, {})
    if own is None:
        return
    current = question.current.strategy
    for switch in switches if not question.fits else ():
        setup = _with(question, [switch])
        trial = None if setup is None else tried(question, _pinned(question, setup))
        yield from () if trial is None else (trial,)
    yield from _first_of(question, own, _policies(question, own), limit=limit, every=True)
    yield from _first_of(question, own, _schemes(question, own), limit=limit, every=True)
    yield from _first_of(question, own, _batches(question), limit=limit, every=False)
    meshes = [one for one in proposals(question, own, below_s=limit) if _only_mesh(one, current)]
    yield from _first_of(question, own, iter(meshes[:JUDGED]), limit=limit, every=False)
    if not question.fits and meshes:
        roomy = sorted(meshes, key=lambda one: -one.mesh.state_shards * one.mesh.context * one.microbatches)
        slowest = SLOWER * question.current.estimate["step_s"]
        yield from _first_of(question, own, iter(roomy[:JUDGED]), limit=slowest, every=False)


def _pinned(question: Question, setup: Setup) -> Setup:
    """Return the setup with the current policy and batch, where neither the file nor the command line states them."""
    current = question.current.strategy
    stated = {name: (getattr(current, name),) for name in ("remat", "microbatches") if name not in setup.knobs}
    return replace(setup, knobs={**setup.knobs, **stated})


def _first_of(
    question: Question, setup: Setup, strategies: Iterator[Strategy], *, limit: float, every: bool
) -> Iterator[Trial]:
    for strategy in strategies:
        trial = try_strategy(question, setup, strategy)
        if trial is not None and _good(trial, limit):
            yield trial
            if not every:
                return


def _policies(question: Question, setup: Setup) -> Iterator[Strategy]:
    current = question.current.strategy
    names = question.form.remats(setup.imported) or KNOBS["remat"].grid_values(question.request.hardware.kind)
    return (current.with_knob("remat", name) for name in names if name != current.remat)


def _schemes(question: Question, setup: Setup) -> Iterator[Strategy]:
    current = question.current.strategy
    names = question.form.schemes(setup.imported) if current.mesh.context > 1 else ()
    return (current.model_copy(update={"scheme": name}) for name in names if name != current.scheme)


def _batches(question: Question) -> Iterator[Strategy]:
    current = question.current.strategy
    share, rest = divmod(question.request.workload.global_batch, current.mesh.batch_ranks)
    counts = divisors(share) if not rest else ()
    return (current.with_knob("microbatches", count) for count in counts if count > current.microbatches)


def _only_mesh(strategy: Strategy, current: Strategy) -> bool:
    return strategy.mesh != current.mesh and strategy.remat == current.remat


def _change(question: Question, trial: Trial) -> Change:
    words = tuple(_words(question, trial.settings, trial.options))
    need = trial.verdict.memory_bytes + trial.verdict.allowance_bytes
    candidate = of_the_file(trial.candidate, trial.verdict, request=question.request)
    return Change(words, candidate, need, settings=trial.settings, options=trial.options, unpriced=trial.moves)


def _words(question: Question, settings: Settings, options: Mapping[str, Any]) -> Iterator[str]:
    """Each setting as the file writes it with its value until now, and each change of the training script."""
    form, said = question.form, question.imported.settings
    for key, value in settings.items():
        if key not in said and value is None:
            continue
        before = plain(said[key]) if key in said and value is not None else ""
        yield form.line(key, value) + (f" (now {before})" if before else "")
    for name, values in options.items():
        if values == (getattr(question.current.strategy, name),) and name != "loss_chunk_tokens":
            continue
        yield f"{form.script.get(name, name)} ({KNOBS[name].option} {values[0]})"
