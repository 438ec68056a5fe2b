"""The output of ``lcplan fits``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import format_bytes
from planner.fits.footprint import Footprint
from planner.fits.growth import Growth
from planner.report.terminal.steps.own_step import buffer_table

BUFFERS = 5


def fits_view(found: Sequence[Footprint], compared: Sequence[Growth], *, budget_bytes: int, written: Path | None) -> Group:
    """The verdict of each toolchain, and the growth."""
    return Group(*_sections(found, compared, budget_bytes, written))


def _sections(
    found: Sequence[Footprint], compared: Sequence[Growth], budget_bytes: int, written: Path | None
) -> Iterator[RenderableType]:
    for one in found:
        yield from _verdict(one, budget_bytes)
    if written is not None:
        yield Text(f"baseline written: {written}")
    for growth in compared:
        yield from _growth(growth)


def _verdict(one: Footprint, budget_bytes: int) -> Iterator[RenderableType]:
    fits = one.need_bytes <= budget_bytes
    yield Text(f"{one.subject}: {one.target}, jax {one.jax}", style="bold")
    parts = f"argument {format_bytes(one.argument_bytes)}, temp {format_bytes(one.temp_bytes)}"
    total, allowance = format_bytes(one.total_bytes), format_bytes(one.allowance_bytes)
    free = budget_bytes - one.need_bytes
    verdict = f"fits, {format_bytes(free)} free" if fits else f"does not fit: {format_bytes(-free)} over"
    yield Text(
        f"{total} compiled ({parts}) + {allowance} allowance, of {format_bytes(budget_bytes)}: {verdict}",
        style="green" if fits else "red",
    )
    if not fits and one.buffers:
        yield buffer_table(one.buffers[:BUFFERS])


def _growth(growth: Growth) -> Iterator[RenderableType]:
    before, after = growth.before, growth.after
    change = after.total_bytes / max(1, before.total_bytes) - 1.0
    versions = f"jax {before.jax} -> {after.jax}" if before.jax != after.jax else f"jax {after.jax}"
    if not growth.failures:
        yield Text(f"not grown: {change:+.1%} memory, {versions}", style="green")
    for words in growth.failures:
        yield Text(f"grown: {words} ({versions})", style="red")
    for words in growth.details:
        yield Text(f"  {words}", style="dim")
