"""The output of ``lcplan inspect --profile``: where a step's time went, next to the cost model's parts."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import format_seconds
from planner.inspect.profile.operation import Operation
from planner.inspect.profile.report import LABELS, ProfileReport, Row
from planner.report.terminal.tables import FittedTable, plain
from planner.report.view.marks import LEGEND

FIRST = 8
"""Operations shown."""


def profile_view(report: ProfileReport) -> Group:
    """The step, its parts, its collectives and its longest operations."""
    return Group(*_sections(report))


def _sections(report: ProfileReport) -> Iterator[RenderableType]:
    profile = report.profile
    yield Text(f"{profile.program}: {format_seconds(profile.step_s)} a step", style="bold")
    low, high = min(profile.samples_s), max(profile.samples_s)
    spread = f", {format_seconds(low)} to {format_seconds(high)}" if profile.steps > 1 else ""
    steps = f"{profile.steps} step{'s' if profile.steps > 1 else ''}"
    yield Text(f"{len(profile.devices)} devices, {steps}{spread}; below, the median step of the slowest device")
    if report.candidate is not None:
        yield Text(f"plan: {report.candidate.strategy.label}")
    yield Text("")
    yield _parts(report)
    yield Text(f"{100 * profile.named_ratio:.1f} % of the step has a name", style="dim")
    if profile.collectives:
        yield Text("\nCollectives", style="bold")
        yield _collectives(report)
    if profile.operations:
        yield Text("\nLongest operations, all calls of a step", style="bold")
        yield from _operations(report)
    if report.candidate is not None:
        yield Text(LEGEND, style="dim")
    else:
        yield Text("note: give the plan that ran, to see predictions and the axes of collectives", style="yellow")
    if report.others:
        yield Text(
            f"note: other programs in the profile: {', '.join(report.others[:5])}; choose one with --program", style="yellow"
        )


def _parts(report: ProfileReport) -> FittedTable:
    planned = report.candidate is not None
    figures = ("measured t", "share", "hidden t")
    table = plain("part", figures=("predicted ~", *figures, "ratio") if planned else figures)
    for row in report.rows():
        table.add_row(*_cells(row, report.profile.step_s, planned=planned))
    total = [format_seconds(report.profile.step_s), "100 %", ""]
    if planned and report.predicted_s is not None:
        ratio = report.predicted_s / report.profile.step_s
        total = [format_seconds(report.predicted_s), *total, f"{ratio:.2f}"]
    table.add_row("step", *total, style="bold")
    return table


def _cells(row: Row, step_s: float, *, planned: bool) -> list[str]:
    measured = "-" if row.measured_s is None else format_seconds(row.measured_s)
    share = "-" if row.measured_s is None else f"{100 * row.measured_s / step_s:.1f} %"
    hidden = format_seconds(row.hidden_s) if row.hidden_s > 0 else ""
    cells = [measured, share, hidden]
    if planned:
        ratio = f"{row.predicted_s / row.measured_s:.2f}" if row.predicted_s and row.measured_s else ""
        cells = ["-" if row.predicted_s is None else format_seconds(row.predicted_s), *cells, ratio]
    return [LABELS[row.key], *cells]


def _collectives(report: ProfileReport) -> FittedTable:
    table = plain("op", "axis", figures=("calls", "total t", "exposed t"))
    found = sorted(report.profile.collectives.items(), key=lambda item: -item[1].total_s)
    for (op, axis), time in found:
        calls = report.profile.calls.get((op, axis), 0)
        table.add_row(op, axis, str(calls), format_seconds(time.total_s), format_seconds(time.exposed_s))
    return table


def _operations(report: ProfileReport) -> Iterator[RenderableType]:
    table = FittedTable()
    table.add_column("time t", justify="right", no_wrap=True)
    table.add_column("part", no_wrap=True)
    table.add_column("operation")
    for one, part, seconds in report.profile.operations[:FIRST]:
        table.add_row(format_seconds(seconds), LABELS.get(part, part), f"{one.name} {_place(one)}".strip())
    yield table


def _place(one: Operation) -> str:
    """The last folder, file and line in the source program, else the end of jax's path."""
    parts = (one.source or one.path).split("/")
    return "/".join(parts[-2:])
