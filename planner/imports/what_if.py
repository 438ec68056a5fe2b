"""What-if questions about the plan of a file: its strategy stays, and the length, the batch or the devices change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import lcm

from lcplan.formats.errors import BadInputError
from planner.imports.own_plan import OwnPlan, own_plan
from planner.request.request import SearchRequest
from planner.request.request_changes import LONGEST_TOKENS, TILE_TOKENS, Ask, length_unit
from planner.space.one_strategy import one_mesh
from planner.trainers.common.imported import Imported
from planner.what_if.binds import Binds, memory_binds
from planner.what_if.result import Boundary, NextStep, Question, WhatIf
from planner.what_if.sweep import sweep
from planner.what_if.vary import Varied

COARSER = (1, 2, 4, 8, 16, 32, 64)
"""Multiples of a mesh's own unit that are tried for a step at which the trainer takes every length."""
SPLASH_BLOCK = 512
"""Default of splash attention's blocks in MaxText and in Levanter (``sa_block_q``)."""
MOST_SEQUENCES = 2**31


@dataclass(frozen=True)
class FileQuestion:
    """A file's plan, and the ways to ask for it again."""

    imported: Imported
    request: SearchRequest
    backends: tuple[str, ...]
    with_devices: Callable[[int], tuple[SearchRequest, Imported]]
    """Reads the file for another number of devices."""

    def at(self, *, seq_len: int | None = None, global_batch: int | None = None) -> OwnPlan:
        """The plan at another length or batch."""
        return own_plan(_changed(self.request, seq_len, global_batch), self.imported, self.backends)


def what_if_file(ask: FileQuestion, question: Question, varied: tuple[Varied, ...]) -> WhatIf:
    """Answer a question about the plan of a file.

    Raises
    ------
    BadInputError
        A part of the file has no price, so that nothing is known to fit; or a boundary at each point of a sweep.
    """
    if ask.imported.unpriced:
        raise BadInputError(f"{ask.imported.file}: {ask.imported.unpriced[0]}; so it has no verdict that could change")
    if question == "sweep":
        return _swept(ask, varied)
    if varied:
        raise BadInputError(f"--vary with {question} of a file: use sweep, or leave --vary out")
    answers = {"max-seq": _longest, "max-batch": _largest, "min-devices": _fewest}
    answer = answers[question](ask)
    notes: tuple[str, ...] = (
        f"the strategy is that of {ask.imported.file}; without the file the question is about every strategy",
    )
    refused = answer.candidate is not None and _plan_of(ask, answer, question).opinion.refusals
    notes += tuple(f"refused by the trainer: {one}" for one in refused or ())
    return WhatIf(question, answer.request, answer.request.devices or ask.request.hardware.devices, answer, (), notes=notes)


def _plan_of(ask: FileQuestion, answer: Boundary, question: Question) -> OwnPlan:
    if question == "min-devices" and answer.value is not None:
        request, imported = ask.with_devices(answer.value)
        return own_plan(request, imported, ask.backends)
    work = answer.request.workload
    return ask.at(seq_len=work.seq_len, global_batch=work.global_batch)


def _changed(request: SearchRequest, seq_len: int | None, global_batch: int | None) -> SearchRequest:
    """The request at another length or batch, with a loss chunk that divides a rank's tokens."""
    given = global_batch is not None or request.workload.global_batch_given
    workload = request.workload.resized(seq_len=seq_len, global_batch=global_batch, given=given)
    filters, chunks = request.filters, request.filters.loss_chunk_tokens
    whole = request.program.loss == "whole"
    if seq_len is not None and (chunks or whole):
        local = seq_len // one_mesh(request).context
        most = local if whole or not chunks else min(chunks[0], local)
        chunk = next(size for size in range(most, 0, -1) if local % size == 0)
        filters = filters.model_copy(update={"loss_chunk_tokens": (chunk,)})
    return request.model_copy(update={"workload": workload, "filters": filters})


def _longest(ask: FileQuestion) -> Boundary:
    """The longest sequence, at a step at which the file's own rules are kept."""
    mesh = one_mesh(ask.request)
    base = lcm(length_unit(mesh.context, mesh.tensor), mesh.context * _tile(ask.request))
    unit, first = _unit(ask, base)
    return _boundary(
        first, lambda count: ask.at(seq_len=count * unit), unit=unit, most=LONGEST_TOKENS // unit, value=lambda n: n * unit
    )


def _tile(request: SearchRequest) -> int:
    """Tokens of a rank that the attention kernel takes at a time: the file's block, else splash attention's on a TPU."""
    blocks = request.filters.attention_block
    return blocks[0] if blocks and blocks[0] else SPLASH_BLOCK if request.hardware.kind == "tpu" else TILE_TOKENS


def _unit(ask: FileQuestion, base: int) -> tuple[int, OwnPlan]:
    """The smallest step at which neither lcplan nor the trainer refuses a length."""
    problem: BadInputError | None = None
    for factor in COARSER:
        unit = base * factor
        try:
            first, odd = ask.at(seq_len=unit), ask.at(seq_len=3 * unit)
        except BadInputError as error:
            problem = error
            continue
        if factor == COARSER[-1] or not (first.opinion.refusals or odd.opinion.refusals):
            return unit, first
    assert problem is not None, "the last step is returned, or has a problem"
    raise problem


def _largest(ask: FileQuestion) -> Boundary:
    """The largest batch that a step holds at once: without accumulation."""
    once = ask.request.filters.model_copy(update={"microbatches": (1,)})
    ask = replace(ask, request=ask.request.model_copy(update={"filters": once}))
    mesh = one_mesh(ask.request)
    ranks = mesh.data * mesh.fsdp * mesh.expert
    first = ask.at(global_batch=ranks)
    return _boundary(
        first,
        lambda count: ask.at(global_batch=count * ranks),
        unit=ranks,
        most=MOST_SEQUENCES // ranks,
        value=lambda n: n * ranks,
    )


def _boundary(first: OwnPlan, at: Callable[[int], OwnPlan], *, unit: int, most: int, value: Callable[[int], int]) -> Boundary:
    """The largest count of units that fits: doubled, then halved. Memory grows with the count."""
    if not first.candidate.best.fits:
        return _nothing(first, value(1))
    low, best, high = 1, first, 2
    while high <= most:
        plan = at(high)
        if not plan.candidate.best.fits:
            break
        low, best, high = high, plan, high * 2
    else:
        return _found(best, value(low), unit=unit, beyond=None)
    beyond = plan
    while high - low > 1:
        middle = (low + high) // 2
        plan = at(middle)
        if plan.candidate.best.fits:
            low, best = middle, plan
        else:
            high, beyond = middle, plan
    return _found(best, value(low), unit=unit, beyond=beyond)


def _found(best: OwnPlan, value: int, *, unit: int, beyond: OwnPlan | None) -> Boundary:
    binds = _binds(beyond or best)
    following = None if beyond is None else NextStep(value + unit, beyond.candidate, beyond.request)
    return Boundary(value, unit, best.candidate, binds, None, following, best.request)


def _binds(plan: OwnPlan) -> Binds:
    """The trainer's rule that a plan breaks, else the memory that it lacks."""
    if plan.opinion.refusals:
        return Binds("rule", "trainer", f"the trainer refuses the file: {plan.opinion.refusals[0]}")
    return memory_binds(plan.candidate, plan.request.budget_bytes)


def _nothing(first: OwnPlan, value: int) -> Boundary:
    binds = _binds(first)
    return Boundary(None, None, None, binds, None, NextStep(value, first.candidate, first.request), first.request)


def _fewest(ask: FileQuestion) -> Boundary:
    """The fewest devices, by reading the file for fewer."""
    top = ask.request.devices or ask.request.hardware.devices
    tried = [*_with_fewer(ask, top)]
    if not tried:
        return _nothing(ask.at(), top)
    fitting = [(count, plan) for count, plan in tried if plan.candidate.best.fits]
    if not fitting:
        return _nothing(tried[-1][1], tried[-1][0])
    value, best = fitting[0]
    missing = [(count, plan) for count, plan in tried if count < value]
    binds = _binds(missing[-1][1] if missing else best)
    following = NextStep(missing[-1][0], missing[-1][1].candidate, missing[-1][1].request) if missing else None
    step = value - missing[-1][0] if missing else None
    return Boundary(value, step, best.candidate, binds, None, following, best.request)


def _with_fewer(ask: FileQuestion, top: int) -> Iterator[tuple[int, OwnPlan]]:
    """The file's plan on every number of devices that it takes, from the smallest."""
    node = ask.request.hardware.node_size
    for count in [*range(1, min(node, top)), *range(node, top + 1, node)]:
        try:
            request, imported = ask.with_devices(count)
            yield count, own_plan(request, imported, ask.backends)
        except BadInputError:
            continue


def _swept(ask: FileQuestion, varied: tuple[Varied, ...]) -> WhatIf:
    """The file's plan at every point; a point at which it breaks rules is empty."""
    most = ask.request.devices or ask.request.hardware.devices
    free = ask.request.model_copy(update={"devices": None})
    points = []
    for point in sweep(Ask(free, ask.backends, most), varied):
        try:
            request = _changed(point.request, point.request.workload.seq_len, None)
            plan = own_plan(request, ask.imported, ask.backends)
        except BadInputError:
            points.append(replace(point, candidate=None))
            continue
        binds = point.binds if plan.candidate.best.fits else _binds(plan)
        points.append(replace(point, request=plan.request, candidate=plan.candidate, binds=binds))
    note = f"every point is the plan of {ask.imported.file}; one that does not fit is shown with its memory"
    return WhatIf("sweep", ask.request, most, None, tuple(points), notes=(note,))
