"""The output of ``lcplan validate``: errors table by table; of one table also its rows, pairs and chosen fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from planner.report.terminal.tables import FittedTable
from planner.report.view.validation import QUANTITIES, errors, modelled, percent, ratio, with_unit
from planner.validate.scoring.result import TableResult


def tables_view(results: Sequence[TableResult]) -> Group:
    """All tables' errors; where there is one table, its rows too."""
    return Group(*_sections(results))


def _sections(results: Sequence[TableResult]) -> Iterator[RenderableType]:
    yield _summaries(results)
    if len(results) == 1:
        yield from _one(results[0])
    yield Text(
        f"{modelled(results)} modelled; error = predicted / measured - 1; LOO: each row under a fit to the others",
        style="dim",
    )


def _summaries(results: Sequence[TableResult]) -> FittedTable:
    table = _table("table", "quantity", "rows", "mean", "bias", "worst", "LOO", "rank", "fitted", left=2)
    for result in results:
        for number, row in enumerate(errors(result)):
            table.add_row(*(row if number == 0 else row._replace(table="", fitted="")))
        if not result.summary:
            rows = f"{result.modelled}/{len(result.rows)}"
            table.add_row(result.table.name, "-", rows, *["-"] * 5, str(len(result.fitted)))
    return table


def _one(result: TableResult) -> Iterator[RenderableType]:
    yield Text(f"\n{result.table.source.title} ({result.table.source.where})", style="dim")
    table = _table("row", "quantity", "measured", "predicted", "error", "need", left=2)
    for row in result.rows:
        label = row.id
        for name, value in row.measured.items():
            predicted = (row.verdict or "-") if name == "fits" else with_unit(name, row.predicted.get(name))
            error = "-" if name == "fits" else percent(row.error_ratio.get(name), sign=True)
            need = percent(row.predicted.get("budget_ratio")) if label else ""
            table.add_row(label, QUANTITIES[name], with_unit(name, value), predicted, error, need)
            label = ""
        if row.why is not None:
            table.add_row(label, row.why, *[""] * 4)
    yield table
    yield Text("need: memory over the budget; within 10 % of it a verdict is too close to call", style="dim")
    for pair in result.pairs:
        measured, predicted = ratio(pair.measured_ratio), ratio(pair.predicted_ratio)
        yield Text(f"{pair.a} over {pair.b}, {QUANTITIES[pair.quantity]}: measured {measured}, predicted {predicted}")
    for entry in result.fitted:
        shown = f"{entry.value:g}" if isinstance(entry.value, float) else entry.value
        yield Text(f"fitted on this table: {entry.name} = {shown} ({entry.unit})", style="yellow")


def _table(*names: str, left: int) -> FittedTable:
    table = FittedTable()
    for index, name in enumerate(names):
        table.add_column(name, no_wrap=index == 0, justify="left" if index < left else "right")
    return table
