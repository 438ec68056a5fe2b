"""What ``lcplan validate`` shows: errors table by table; of one table also its rows, pairs and what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.validate.scoring.result import TableResult

NAMES = {
    "tflop_per_s_per_device": "TFLOP/s per device",
    "tokens_per_s_per_device": "tokens/s per device",
    "step_s": "step time",
    "peak_bytes": "peak memory",
    "fits": "fits",
}


def tables_view(results: Sequence[TableResult]) -> Group:
    """All tables' errors; where there is one table, its rows too."""
    return Group(*_sections(results))


def _sections(results: Sequence[TableResult]) -> Iterator[RenderableType]:
    yield _summaries(results)
    if len(results) == 1:
        yield from _one(results[0])
    rows, modelled = sum(len(r.rows) for r in results), sum(r.modelled for r in results)
    yield Text(
        f"{modelled} of {rows} rows modelled; error = predicted / measured - 1; LOO: each row under a fit to the others",
        style="dim",
    )


def percent(value: float | None, *, sign: bool = False) -> str:
    """A ratio as a percentage, ``-`` where there is none."""
    if value is None:
        return "-"
    return f"{value:+.1%}" if sign else f"{value:.1%}"


def _summaries(results: Sequence[TableResult]) -> Table:
    table = _table("table", "quantity", "rows", "mean", "bias", "worst", "LOO", "rank", "fitted", left=2)
    for result in results:
        label = result.table.name
        for name, entry in result.summary.items():
            ranks = "-" if entry.rank_correlation is None else f"{entry.rank_correlation:.2f}"
            table.add_row(
                label,
                NAMES[name],
                f"{entry.rows}/{len(result.rows)}",
                percent(entry.mean_abs_error_ratio),
                percent(entry.bias_ratio, sign=True),
                percent(entry.worst_error_ratio, sign=True),
                percent(entry.leave_one_out_ratio),
                ranks,
                str(len(result.fitted)) if label else "",
            )
            label = ""
        if not result.summary:
            table.add_row(label, "-", f"{result.modelled}/{len(result.rows)}", *["-"] * 5, str(len(result.fitted)))
    return table


def _one(result: TableResult) -> Iterator[RenderableType]:
    yield Text(f"\n{result.table.source.title} ({result.table.source.where})", style="dim")
    table = _table("row", "quantity", "measured", "predicted", "error", left=2)
    for row in result.rows:
        label = row.id
        for name, value in row.measured.items():
            predicted = "-" if name not in row.predicted else f"{row.predicted[name]:.5g}"
            table.add_row(label, NAMES[name], f"{value:.5g}", predicted, percent(row.error_ratio.get(name), sign=True))
            label = ""
        if row.why is not None:
            table.add_row(label, row.why, "", "", "")
    yield table
    for pair in result.pairs:
        predicted = "-" if pair.predicted_ratio is None else f"{pair.predicted_ratio:.3f}"
        yield Text(f"{pair.a} over {pair.b}, {NAMES[pair.quantity]}: measured {pair.measured_ratio:.3f}, predicted {predicted}")
    for entry in result.fitted:
        shown = f"{entry.value:g}" if isinstance(entry.value, float) else entry.value
        yield Text(f"fitted on this table: {entry.name} = {shown} ({entry.unit})", style="yellow")


def _table(*names: str, left: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(names):
        table.add_column(name, no_wrap=index == 0, justify="left" if index < left else "right")
    return table
