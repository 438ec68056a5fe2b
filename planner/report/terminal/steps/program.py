"""The output of ``lcplan inspect`` on a plan or a step file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import format_bytes, format_count, format_seconds
from planner.inspect.program import Looked
from planner.report.terminal.candidates import breakdown
from planner.report.terminal.steps.own_step import buffer_table, shares
from planner.report.terminal.tables import FittedTable, titled

KERNELS, MESSAGES = 10, 12


def program_view(name: str, found: Sequence[Looked]) -> Group:
    """The first compile in full, and the difference of the others."""
    return Group(*_sections(name, found))


def _sections(name: str, found: Sequence[Looked]) -> Iterator[RenderableType]:
    first = found[0]
    compiled = first.compiled
    yield Text(f"{name}: {compiled.target}, jax {compiled.jax}{_flags(first)}", style="bold")
    sizes = {"argument": compiled.argument_bytes, "output": compiled.output_bytes, "temp": compiled.temp_bytes}
    sizes |= {"donated": compiled.alias_bytes, "host temp": compiled.host_temp_bytes}
    parts = ", ".join(f"{part} {format_bytes(size or 0)}" for part, size in sizes.items() if size)
    yield Text(f"memory {format_bytes(compiled.total_bytes or 0)}: {parts}")
    if compiled.schedule is not None:
        schedule = compiled.schedule
        yield Text(
            f"collectives in the text: {schedule.asynchronous} asynchronous, {schedule.overlapped} of them with compute before"
            f" they end, {schedule.combined} combined"
        )
    for words in compiled.warnings:
        yield Text(f"warning: {words}", style="yellow")
    if compiled.buffers:
        yield Text("\nLargest buffers at the peak", style="dim")
        yield buffer_table(compiled.buffers)
    inside = compiled.inside
    if inside is not None and inside.saved:
        yield Text(f"\nSaved for the backward pass, {format_bytes(inside.saved_bytes)}", style="dim")
        yield buffer_table(inside.saved)
    if inside is not None and inside.memory is not None:
        curve = inside.memory
        place = f"{curve.line} " if curve.line else ""
        yield Text(f"\npeak at instruction {curve.peak_at:,} of {curve.instructions:,}: {place}{curve.operation[-70:]}")
    if first.time is not None:
        yield Text()
        yield _messages(first)
        yield Text()
        yield _kernels(first)
        yield Text(f"\nStep time by part, {format_seconds(first.time.step_s)} estimated from the executable", style="dim")
        yield breakdown(shares(first.time.parts))
    if len(found) > 1:
        yield Text()
        yield _difference(found)


def _flags(one: Looked) -> str:
    return f", {','.join(f'{name}={value}' for name, value in one.flags)}" if one.flags else ""


def _messages(one: Looked) -> FittedTable:
    table = titled("Collectives per step", header_style="dim")
    for name in ("op", "axis", "level"):
        table.add_column(name, no_wrap=True)
    for name in ("bytes", "calls", "time", "exposed"):
        table.add_column(name, justify="right", no_wrap=True)
    for use in one.time.messages[:MESSAGES] if one.time is not None else ():
        message = use.message
        level = "network" if message.crosses > 1 else "domain"
        times = (format_seconds(use.total_s), format_seconds(use.exposed_s))
        table.add_row(message.op, message.axis, level, format_bytes(message.bytes), f"{use.calls:,}", *times)
    return table


def _kernels(one: Looked) -> FittedTable:
    table = titled("Kernels per step", header_style="dim")
    table.add_column("kernel", no_wrap=True)
    for name in ("calls", "FLOP", "traffic"):
        table.add_column(name, justify="right", no_wrap=True)
    for kernel in one.kernels[:KERNELS]:
        flop = format_count(kernel.flop) if kernel.flop else "-"
        table.add_row(kernel.name, f"{kernel.calls:,}", flop, format_bytes(kernel.bytes))
    return table


def _difference(found: Sequence[Looked]) -> FittedTable:
    """One column per set of flags."""
    table = titled("Difference of the flags", header_style="dim")
    table.add_column("")
    for one in found:
        table.add_column(_flags(one).removeprefix(", ") or "no flags", justify="right")
    rows = {
        "memory": [format_bytes(one.compiled.total_bytes or 0) for one in found],
        "temp": [format_bytes(one.compiled.temp_bytes or 0) for one in found],
        "step": [format_seconds(one.time.step_s) if one.time else "-" for one in found],
        "exposed collectives": [_exposed(one) for one in found],
        "asynchronous": [str(one.compiled.schedule.asynchronous) if one.compiled.schedule else "-" for one in found],
        "overlapped": [str(one.compiled.schedule.overlapped) if one.compiled.schedule else "-" for one in found],
        "combined": [str(one.compiled.schedule.combined) if one.compiled.schedule else "-" for one in found],
        "compile": [f"{one.compiled.compile_s:.1f} s" for one in found],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _exposed(one: Looked) -> str:
    return format_seconds(sum(use.exposed_s for use in one.time.messages)) if one.time else "-"
