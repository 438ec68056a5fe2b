"""The part that ``lcplan estimate --from-..`` adds: the values read, the needs not modelled, the changes advised."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cost_models.parts.memory import STEP_MEMORY, TRAINER
from lcplan.formats.units import format_bytes, format_seconds
from planner.candidates.candidate import Candidate
from planner.imports.advice import Change
from planner.imports.estimate import Opinion
from planner.imports.verdict import REFUSED, UNPRICED
from planner.request.request import SearchRequest
from planner.trainers import trainer


def opinion_view(opinion: Opinion, *, candidate: Candidate, request: SearchRequest) -> Group:
    """The opinion, below the estimate."""
    return Group(*_sections(opinion, candidate=candidate, request=request))


def _sections(opinion: Opinion, *, candidate: Candidate, request: SearchRequest) -> Iterator[RenderableType]:
    target = trainer(opinion.imported.trainer)
    through = f"{opinion.imported.through} with " if opinion.imported.through else ""
    yield Text(f"\n{opinion.imported.file} as {through}{target.title} runs it", style="bold")
    for key in opinion.imported.unknown:
        yield Text(f"unknown key: {key}", style="yellow")
    for note in opinion.imported.notes:
        yield Text(f"note: {note}", style="yellow")
    for refusal in opinion.refusals:
        yield Text(f"refused by the trainer: {refusal}", style="red")
    for reason in opinion.imported.unpriced:
        yield Text(f"not priced: {reason}", style="red")
    for difference in opinion.differences:
        size = f" ({format_bytes(difference.extra_bytes)} a device)" if difference.extra_bytes else ""
        yield Text(f"{difference.name}: {difference.trainer}{size}")
        yield Text(f"  {difference.why}", style="dim")
    need = opinion.memory_bytes + opinion.allowance_bytes
    fits = f"{format_bytes(need)} of {format_bytes(request.budget_bytes)} with all of that{_host(opinion)}: "
    yield Text(f"{fits}{_verdict(opinion, need <= request.budget_bytes)}", style="green" if opinion.fits else "red")
    yield from _advice(opinion, candidate)


def _verdict(opinion: Opinion, held: bool) -> str:
    if opinion.fits:
        return "fits"
    if not held or not opinion.host_holds:
        return "does not fit" + ", and the trainer refuses the file" * bool(opinion.refusals)
    return UNPRICED if opinion.imported.unpriced else REFUSED


def _host(opinion: Opinion) -> str:
    """The memory of a host, where something is kept in it."""
    if not opinion.host_bytes or opinion.host_memory_bytes is None:
        return ""
    full = "" if opinion.host_holds else ", which the host does not hold"
    return f", and {format_bytes(opinion.host_bytes)} of {format_bytes(opinion.host_memory_bytes)} of a host{full}"


def _advice(opinion: Opinion, candidate: Candidate) -> Iterator[RenderableType]:
    advice, step = opinion.advice, candidate.estimate["step_s"]
    if not opinion.fits:
        yield Text(_largest(candidate))
    yield Text("\nChanges that lcplan recommends", style="bold")
    for reason in advice.why_none:
        yield Text(f"  not looked for: {reason}")
    if advice.why_none:
        return
    if advice.best is None:
        nothing = "nothing that it prices is 2 % faster" if opinion.fits else "nothing that it prices runs on these devices"
        yield Text(f"  {nothing} (for {opinion.imported.trainer}, on as many devices)")
        return
    for change in (*advice.single, advice.best):
        together = "together: " if change is advice.best and advice.single and len(change.what) > 1 else ""
        yield Text(f"  {together}{'; '.join(change.what)}\n    {_gain(change, step)}")


def _gain(change: Change, step: float) -> str:
    """Return the step time and the memory of a change; that of the whole file, where it was read again."""
    estimate = change.candidate.estimate
    gain = f"step {format_seconds(step)} -> {format_seconds(estimate['step_s'])} ({estimate['step_s'] / step - 1:+.1%})"
    if change.unpriced:
        gain += " and the time to move the state, which is not priced"
    need = estimate["memory_bytes"]["total"] if change.need_bytes is None else change.need_bytes
    return f"{gain}, memory {format_bytes(need)}"


def _largest(candidate: Candidate) -> str:
    """Return the part of memory that takes most, with its size and share."""
    labels = {part.key: part.label for part in (*STEP_MEMORY, TRAINER)}
    parts = {name: size for name, size in candidate.estimate["memory_bytes"].items() if name in labels}
    name = max(parts, key=lambda part: parts[part])
    share = parts[name] / sum(parts.values())
    return f"most of it: {labels[name]}, {format_bytes(parts[name])} ({share:.0%})"
