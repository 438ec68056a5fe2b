"""The output of a search over a step of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.evidence.execution import Buffer
from lcplan.formats.units import GIB, format_bytes, format_count, format_seconds
from planner.own_step.candidate import StepCandidate
from planner.own_step.search import StepResult
from planner.report.terminal.candidates import breakdown
from planner.report.terminal.tables import FittedTable, titled
from planner.report.view.performance import Share

SHOWN = 12
BUFFERS = 6


def step_view(result: StepResult) -> Group:
    """The whole answer."""
    return Group(*_sections(result))


def _sections(result: StepResult) -> Iterator[RenderableType]:
    request = result.request
    work = ", ".join(f"{name}={value:,}" for name, value in request.workload.items())
    yield Text(f"{Path(request.step).name}: {work or 'no numbers of a workload'}", style="bold")
    budget = format_bytes(request.budget_bytes)
    yield Text(f"{request.devices} x {request.hardware.device.name} ({request.hardware.name}), budget {budget} a device")
    yield Text()
    yield Text(_funnel(result))
    yield Text()
    if any(one.usable for one in result.candidates):
        yield _table(result)
        yield Text(
            "c compiled for the target   step: estimated from the executable   hidden: share of collectives during compute",
            style="dim",
        )
    yield from _trouble(result.candidates)
    yield Text()
    yield from _end(result)
    if result.points.rejected:
        yield Text()
        yield _rejections(result)
    for note in result.notes:
        yield Text(f"note: {note}", style="yellow")


def _funnel(result: StepResult) -> str:
    points, tried = result.points, result.candidates
    left = f", {result.left:,} not compiled" if result.left else ""
    return (
        f"{points.enumerated:,} strategies: {sum(points.rejected.values()):,} rejected by rules, {len(tried)} compiled,"
        f" {sum(one.fits for one in tried)} fit{left}"
    )


def _table(result: StepResult) -> FittedTable:
    knobs = tuple(result.request.space.knobs)
    table = titled("Best candidates" if result.winner else "Candidates; no candidate fits", header_style="dim")
    table.gap = 1
    table.add_column("#", justify="right", no_wrap=True)
    for name in ("mesh", *knobs):
        table.add_column(name, no_wrap=True)
    tokens = any(one.tokens for one in result.candidates)
    for name in ("step", *(("tokens/s",) if tokens else ()), "GiB", "free", "hidden"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for number, one in enumerate(result.candidates[:SHOWN], start=1):
        if one.usable and one.compiled is not None and one.compiled.total_bytes is not None:
            table.add_row(
                *_row(number, one, knobs, tokens=tokens, budget=result.request.budget_bytes), style=None if one.fits else "dim"
            )
    return table


def _row(number: int, one: StepCandidate, knobs: Sequence[str], *, tokens: bool, budget: int) -> list[str]:
    assert one.compiled is not None, "a usable candidate has a compile"
    assert one.compiled.total_bytes is not None
    speed = [format_count(one.tokens_per_s) if one.tokens_per_s else "-"] if tokens else []
    need = one.compiled.total_bytes + one.allowance_bytes
    hidden = [(message.total_s, message.exposed_s) for message in one.time.messages] if one.time else []
    total = sum(seconds for seconds, _ in hidden)
    share = f"{max(0.0, 1.0 - sum(waits for _, waits in hidden) / total):.0%}" if total else "-"
    mark = "h" if one.compiled.rung == "compiled:host" else "c"
    figures = [f"{one.compiled.total_bytes / GIB:.1f} {mark}", f"{(budget - need) / GIB:.1f}", share]
    step = f"{format_seconds(one.step_s)} ~" if one.step_s is not None else "-"
    values = [str(one.strategy.knobs.get(name)) for name in knobs]
    return [str(number), one.strategy.mesh_label, *values, step, *speed, *figures, "" if one.fits else "over"]


def _trouble(candidates: Sequence[StepCandidate]) -> Iterator[Text]:
    """Failed compiles, equal reasons once; and warnings of the compiler."""
    failed: dict[str, list[str]] = {}
    warned: dict[str, list[str]] = {}
    for one in candidates:
        if one.compiled is not None and one.compiled.error:
            failed.setdefault(one.compiled.error, []).append(one.strategy.label)
        for words in one.compiled.warnings if one.compiled is not None else ():
            if ".py:" not in words:
                warned.setdefault(words, []).append(one.strategy.label)
    for what, found, style in (("failed", failed, "red"), ("warning", warned, "yellow")):
        for words, labels in found.items():
            yield Text(f"{what}: {labels[0] if len(labels) == 1 else f'{len(labels)} compiles'}: {words}", style=style)


def _end(result: StepResult) -> Iterator[RenderableType]:
    winner, miss = result.winner, result.nearest_miss
    if winner is not None:
        yield Text(f"Winner: {winner.strategy.label}", style="bold green")
        yield from candidate_view(winner)
    elif miss is not None:
        assert miss.compiled is not None, "a miss has a compile"
        need = (miss.compiled.total_bytes or 0) + miss.allowance_bytes
        over = format_bytes(need - miss.budget_bytes)
        yield Text(
            f"Nearest miss: {miss.strategy.label}: {format_bytes(need)} with the allowance, {over} over the budget",
            style="yellow",
        )
        yield from candidate_view(miss)


def candidate_view(one: StepCandidate) -> Iterator[RenderableType]:
    """The figures of one candidate: memory, largest buffers at the peak, time by part."""
    compiled, time = one.compiled, one.time
    assert compiled is not None, "a candidate with a compile"
    if time is not None:
        speed = f", {format_count(one.tokens_per_s)} tokens/s" if one.tokens_per_s else ""
        yield Text(f"step {format_seconds(time.step_s)} ±{one.time_ratio:.0%}{speed}, estimated from the executable")
    sizes = {"argument": compiled.argument_bytes, "output": compiled.output_bytes, "temp": compiled.temp_bytes}
    parts = ", ".join(f"{name} {format_bytes(size or 0)}" for name, size in sizes.items())
    yield Text(
        f"memory {format_bytes(compiled.total_bytes or 0)} c ({parts}, donated {format_bytes(compiled.alias_bytes or 0)})"
        f" + {format_bytes(one.allowance_bytes)} for runtime and communicators"
    )
    if compiled.buffers:
        yield Text("\nLargest buffers at the peak", style="dim")
        yield buffer_table(compiled.buffers[:BUFFERS])
    if time is not None:
        yield Text("Step time by part (estimated from the executable)", style="dim")
        yield breakdown(shares(time.parts))


def buffer_table(buffers: Sequence[Buffer]) -> FittedTable:
    """One line for each buffer: size, shape, source line, operation."""
    table = FittedTable(headings=False)
    for leaves in (0, 2, 0, 1):
        table.add_column(no_wrap=True, leaves=leaves)
    for one in buffers:
        table.add_row(f"  {format_bytes(one.bytes):>10}", one.shape, one.line, _end_of(one.operation), style="dim")
    return table


def _end_of(operation: str) -> str:
    """The last parts of an operation's name."""
    parts = [part for part in operation.split("/") if part not in ("while", "body", "closed_call")]
    return "/".join(parts[-3:])


def shares(parts: Mapping[str, float]) -> list[Share]:
    """Return the parts of a time, the largest first."""
    found = {name: seconds for name, seconds in parts.items() if seconds > 0}
    whole = sum(found.values())
    ordered = sorted(found.items(), key=lambda pair: -pair[1])
    return [Share(name, format_seconds(seconds), seconds / whole) for name, seconds in ordered]


def _rejections(result: StepResult) -> FittedTable:
    table = titled("Rejected, by the first rule that each breaks")
    table.add_column("rule", style="dim")
    table.add_column("strategies", justify="right", no_wrap=True)
    table.add_column("for example")
    for rule, count in sorted(result.points.rejected.items(), key=lambda pair: -pair[1]):
        table.add_row(rule, f"{count:,}", result.points.examples[rule])
    return table
