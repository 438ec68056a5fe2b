"""Errors of the published tables as rows, the same in the terminal and on the accuracy page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planner.validate.scoring.result import TableResult
from planner.validate.sources.table import Quantity

QUANTITIES = {
    "tflop_per_s_per_device": "TFLOP/s per device",
    "tokens_per_s_per_device": "tokens/s per device",
    "step_s": "step time",
    "peak_bytes": "peak memory",
    "fits": "fits",
}


UNITS = {"tflop_per_s_per_device": "TFLOP/s", "tokens_per_s_per_device": "tokens/s", "step_s": "s"}
"""Units of the values of ``QUANTITIES`` in the text; memory is shown in GiB."""


def with_unit(quantity: str, value: float | bool | None) -> str:
    """A value with its unit; ``-`` without a value.

    >>> with_unit("peak_bytes", 3 * 2**30), with_unit("step_s", 1.5), with_unit("fits", False)
    ('3.00 GiB', '1.5 s', 'out of memory')
    """
    if value is None:
        return "-"
    if quantity == "fits":
        return "fits" if value else "out of memory"
    return f"{value / 2**30:.2f} GiB" if quantity == "peak_bytes" else f"{value:.5g} {UNITS[quantity]}"


class Errors(NamedTuple):
    """Errors of one quantity of one table, as text."""

    table: str
    quantity: str
    rows: str
    mean: str
    bias: str
    worst: str
    leave_one_out: str
    rank: str
    fitted: str


def errors(result: TableResult, *, without: tuple[Quantity, ...] = ()) -> Iterator[Errors]:
    """Rows of one table, one for each quantity that it measures."""
    for name, entry in result.summary.items():
        if name not in without:
            yield Errors(
                table=result.table.name,
                quantity=QUANTITIES[name],
                rows=f"{entry.rows}/{len(result.rows)}",
                mean=percent(entry.mean_abs_error_ratio),
                bias=percent(entry.bias_ratio, sign=True),
                worst=percent(entry.worst_error_ratio, sign=True),
                leave_one_out=percent(entry.leave_one_out_ratio),
                rank="-" if entry.rank_correlation is None else f"{entry.rank_correlation:.2f}",
                fitted=str(len(result.fitted)),
            )


def modelled(results: Sequence[TableResult]) -> str:
    """How many rows of all tables are modelled."""
    rows = sum(len(result.rows) for result in results)
    return f"{sum(result.modelled for result in results)} of {rows} rows"


def percent(value: float | None, *, sign: bool = False) -> str:
    """A ratio as a percentage, ``-`` without a value."""
    if value is None:
        return "-"
    return f"{value:+.1%}" if sign else f"{value:.1%}"


def ratio(value: float | None) -> str:
    """A ratio of two rows, ``-`` without a value."""
    return "-" if value is None else f"{value:.3f}"
