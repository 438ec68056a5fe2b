"""The output of ``lcplan inspect part``: one column for each way of compiling the part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.evidence.measurement import Compiled
from lcplan.formats.units import format_bytes, format_seconds
from planner.inspect.part import Bench, Variant
from planner.report.terminal.tables import FittedTable
from planner.report.view.marks import LEGEND


def part_view(bench: Bench, variants: Sequence[Variant]) -> Group:
    """The part, then memory, time and collectives of each variant side by side."""
    return Group(*_sections(bench, variants))


def _sections(bench: Bench, variants: Sequence[Variant]) -> Iterator[RenderableType]:
    names = variant_names(variants)
    yield Text(bench.part.label, style="bold")
    yield Text(f"{bench.strategy.mesh.label} on {bench.hardware.name}{_compiler(variants)}\n")
    yield _table(bench, variants, names)
    for name, one in zip(names, variants, strict=True):
        for words in _troubles(one):
            yield Text(f"{name}: {words}", style="yellow")
    yield Text(LEGEND, style="dim")
    if any(one.seconds is None for one in variants):
        yield Text("note: a compiler chooses the collectives of auto and explicit, so they have no modelled time")


def variant_names(variants: Sequence[Variant]) -> list[str]:
    """The values in which the variants differ; the sharding mode where there is one variant."""
    fields: tuple[Callable[[Variant], str], ...] = (
        lambda one: one.strategy.sharding_mode,
        lambda one: one.strategy.collective_matmul,
        lambda one: one.strategy.scheme,
        lambda one: ",".join(f"{name}={str(value).lower()}" for name, value in one.flags),
    )
    varying = [read for read in fields if len({read(one) for one in variants}) > 1] or [fields[0]]
    return [" ".join(read(one) or "no flag" for read in varying) for one in variants]


def _compiler(variants: Sequence[Variant]) -> str:
    found = next((one.compiled for one in variants if one.compiled is not None), None)
    return "" if found is None else f", compiled for {found.target} with jax {found.jax} ({found.rung})"


def _troubles(one: Variant) -> Iterator[str]:
    for found in (one.compiled, one.timed):
        if found is not None and found.error:
            yield f"failed: {found.error}"
    if one.compiled is not None:
        yield from (f"warning: {words}" for words in one.compiled.warnings)


def _table(bench: Bench, variants: Sequence[Variant], names: Sequence[str]) -> FittedTable:
    table = FittedTable(blocks=True)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for title, read in _FIGURES.items():
        if title != "attention by" or bench.part.kind == "attention":
            table.add_row(title, *(_figure(one.compiled, read) for one in variants))
    for item in dict.fromkeys(name for one in variants for name in one.seconds or ()):
        table.add_row(f"{item} ~", *("-" if not one.seconds else format_seconds(one.seconds[item]) for one in variants))
    table.add_row("time ~", *("-" if not one.seconds else format_seconds(sum(one.seconds.values())) for one in variants))
    if any(one.timed for one in variants):
        table.add_row("time t", *(_timed(one) for one in variants))
    totals = [_by_kind(one.compiled) for one in variants]
    for op, axis in sorted({kind for total in totals for kind in total}):
        table.add_row(f"{op} {axis} ({bench.level(axis)})", *(_cell(total.get((op, axis))) for total in totals))
    return table


_FIGURES: dict[str, Callable[[Compiled], str]] = {
    "argument c": lambda one: format_bytes(one.argument_bytes or 0),
    "output c": lambda one: format_bytes(one.output_bytes or 0),
    "temp c": lambda one: format_bytes(one.temp_bytes or 0),
    "total memory c": lambda one: format_bytes(one.total_bytes or 0),
    "attention by": lambda one: ", ".join(one.kernels),
    "asynchronous": lambda one: str(one.schedule.asynchronous) if one.schedule else "-",
    "  beside compute": lambda one: str(one.schedule.overlapped) if one.schedule else "-",
}


def _figure(compiled: Compiled | None, read: Callable[[Compiled], str]) -> str:
    return "-" if compiled is None or compiled.total_bytes is None else read(compiled)


def _timed(one: Variant) -> str:
    return "-" if one.timed is None or one.timed.step_s is None else format_seconds(one.timed.step_s)


def _by_kind(compiled: Compiled | None) -> dict[tuple[str, str], tuple[int, int]]:
    """Bytes and calls of each op and axis."""
    sizes, calls = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for use in compiled.collectives if compiled else ():
        sizes[use.op, use.axis] += use.total_bytes
        calls[use.op, use.axis] += use.calls
    return {kind: (sizes[kind], calls[kind]) for kind in sizes}


def _cell(moved: tuple[int, int] | None) -> str:
    return "-" if moved is None else f"{format_bytes(moved[0])} ({moved[1]})"
