"""The output of ``lcplan estimate`` for one strategy in several sharding modes or under several scheduler presets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cost_models.collectives.step import collectives
from lcplan.evidence.measurement import Compiled
from lcplan.formats.units import format_bytes
from lcplan.spec.collective import CollectiveUse
from planner.candidates.candidate import Candidate
from planner.report.terminal.estimate import bases, speed, verdict
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable
from planner.report.view.marks import LEGEND
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of

Kind = tuple[str, str]
"""An op and the axes that it joins."""


def comparison_view(candidates: Sequence[Candidate], request: SearchRequest, notes: tuple[str, ...]) -> Group:
    """The strategy once, then one column for each way of compiling it, next to the modelled list of the manual step."""
    return Group(*_sections(candidates, request, notes))


def _sections(candidates: Sequence[Candidate], request: SearchRequest, notes: tuple[str, ...]) -> Iterator[RenderableType]:
    yield headline(request)
    yield Text(f"\n{_shared_label(candidates)}", style="bold")
    names = ways(candidates)
    for name, candidate in zip(names, candidates, strict=True):
        yield Text(f"{name}: ", end="")
        yield verdict(candidate, request)
    yield speed(candidates[0])
    yield from bases(candidates[0])
    if any(candidate.compiled for candidate in candidates):
        yield Text("\nExecutables side by side; collectives as bytes per step (calls)", style="bold")
        yield _table(candidates, request)
    for name, candidate in zip(names, candidates, strict=True):
        for words in _troubles(candidate.compiled):
            yield Text(f"{name}: {words}", style="yellow")
    yield Text(LEGEND, style="dim")
    for note in notes:
        yield Text(f"note: {note}", style="yellow")


def ways(candidates: Sequence[Candidate]) -> list[str]:
    """The difference between the candidates: the sharding mode, the scheduler preset, or both where both vary."""
    pairs = [(candidate.strategy.sharding_mode, candidate.strategy.scheduler) for candidate in candidates]
    varying = [index for index in range(2) if len({pair[index] for pair in pairs}) > 1] or [0]
    return [" ".join(str(pair[index]) for index in varying) for pair in pairs]


def _shared_label(candidates: Sequence[Candidate]) -> str:
    return candidates[0].strategy.model_copy(update={"sharding_mode": "manual", "scheduler": "default"}).label


def _troubles(compiled: Compiled | None) -> tuple[str, ...]:
    if compiled is None:
        return ()
    return (*([f"failed: {compiled.error}"] if compiled.error else []), *(f"warning: {words}" for words in compiled.warnings))


def _table(candidates: Sequence[Candidate], request: SearchRequest) -> FittedTable:
    table = FittedTable(blocks=True)
    table.add_column("", no_wrap=True)
    for name in ways(candidates):
        table.add_column(name, justify="right")
    table.add_column("laws", justify="right")
    law = collectives(setting_of(request), candidates[0].strategy)
    modelled = format_bytes(candidates[0].estimate["memory_bytes"]["total"])
    columns = [candidate.compiled for candidate in candidates]
    for name, read in _FIGURES.items():
        row = ["-" if one is None or one.total_bytes is None else read(one) for one in columns]
        table.add_row(name, *row, modelled if name == "total memory" else "")
    totals = [_by_kind(one.collectives if one else ()) for one in columns]
    lawful = _by_kind(law)
    for op, axis in _kinds([*totals, lawful]):
        cells = [_cell(total.get((op, axis))) for total in (*totals, lawful)]
        table.add_row(f"{op} {axis}", *cells)
    return table


_FIGURES: dict[str, Callable[[Compiled], str]] = {
    "temp memory": lambda one: format_bytes(one.temp_bytes or 0),
    "total memory": lambda one: format_bytes(one.total_bytes or 0),
    "attention by": lambda one: ", ".join(one.kernels),
    "async": lambda one: str(one.schedule.asynchronous) if one.schedule else "-",
    "  beside compute": lambda one: str(one.schedule.overlapped) if one.schedule else "-",
    "combined": lambda one: str(one.schedule.combined) if one.schedule else "-",
}


def _by_kind(uses: Sequence[CollectiveUse]) -> dict[Kind, tuple[int, int]]:
    """Bytes and calls per step of each op and axis."""
    sizes: Counter[Kind] = Counter()
    calls: Counter[Kind] = Counter()
    for use in uses:
        sizes[use.op, use.axis] += use.total_bytes
        calls[use.op, use.axis] += use.calls
    return {kind: (sizes[kind], calls[kind]) for kind in sizes}


def _kinds(totals: Sequence[dict[Kind, tuple[int, int]]]) -> list[Kind]:
    """Every kind that anything has, most bytes first."""
    found = {kind for total in totals for kind in total}
    return sorted(found, key=lambda kind: (-max(total.get(kind, (0, 0))[0] for total in totals), kind))


def _cell(moved: tuple[int, int] | None) -> str:
    return "-" if moved is None else f"{format_bytes(moved[0])} ({moved[1]:,})"
