"""The page of ``lcplan inspect``: memory and time of an executable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cost_models.executable.timeline import timeline
from lcplan.evidence.execution import Buffer
from lcplan.formats.units import format_bytes, format_count, format_seconds
from lcplan.spec.hardware import HardwareSpec
from planner.inspect.program import Looked
from planner.report.charts.chart import Chart, Figures
from planner.report.charts.inside import memory_chart, shares_chart, timeline_chart
from planner.report.view.chart_page import ChartPage

NO_CURVE = "memory over the step is not drawn: the compiler of this target writes no live ranges"


def inside_page(name: str, one: Looked, hardware: HardwareSpec) -> ChartPage:
    """Return the page of one executable."""
    compiled = one.compiled
    flags = ", ".join(f"{flag}={value}" for flag, value in one.flags)
    inside = compiled.inside
    facts = [
        ("memory", format_bytes(compiled.total_bytes or 0), "argument + output + temp - donated, compiled"),
        ("temp", format_bytes(compiled.temp_bytes or 0), "on one device"),
    ]
    if inside is not None:
        facts.append(("saved for the backward pass", format_bytes(inside.saved_bytes), "arrays that the forward pass keeps"))
    if one.time is not None:
        waits = sum(use.exposed_s for use in one.time.messages)
        facts += [
            ("step", format_seconds(one.time.step_s), "estimated from the executable"),
            ("exposed communication", format_seconds(waits), "during no other work"),
        ]
    curve = inside.memory if inside is not None else None
    return ChartPage(
        title=f"{name}: its executable",
        asked=f"{compiled.target}, jax {compiled.jax}{f', {flags}' if flags else ''}",
        verdict="",
        good=True,
        facts=tuple(facts),
        charts=tuple(_charts(one, hardware)),
        tables=tuple(_tables(one)),
        notes=(*compiled.warnings, *(() if curve is not None else (NO_CURVE,))),
    )


def _charts(one: Looked, hardware: HardwareSpec) -> Iterator[Chart]:
    compiled = one.compiled
    if compiled.execution is not None and one.time is not None:
        yield timeline_chart(timeline(compiled.execution, hardware, devices=one.devices))
    if compiled.inside is not None and compiled.inside.memory is not None:
        yield memory_chart(compiled.inside.memory)
    if one.time is not None:
        yield shares_chart(one.time.parts)


def _tables(one: Looked) -> Iterator[tuple[str, Figures]]:
    compiled = one.compiled
    if compiled.buffers:
        yield "Largest buffers at the peak", buffer_figures(compiled.buffers)
    if compiled.inside is not None and compiled.inside.saved:
        yield "Saved for the backward pass", buffer_figures(compiled.inside.saved)
    if one.time is not None and one.time.messages:
        headings = ("collective", "axis", "level", "bytes", "calls", "time", "exposed")
        rows = tuple(
            (
                use.message.op,
                use.message.axis,
                "network" if use.message.crosses > 1 else "domain",
                format_bytes(use.message.bytes),
                f"{use.calls:,}",
                format_seconds(use.total_s),
                format_seconds(use.exposed_s),
            )
            for use in one.time.messages
        )
        yield "Collectives per step", Figures(headings, rows)
    kernels = tuple(
        (found.name, f"{found.calls:,}", format_count(found.flop) if found.flop else "-", format_bytes(found.bytes))
        for found in one.kernels
    )
    if kernels:
        yield "Kernels per step", Figures(("kernel", "calls", "FLOP", "traffic"), kernels)


def buffer_figures(buffers: Sequence[Buffer]) -> Figures:
    """Return buffers as a table."""
    rows = tuple((format_bytes(one.bytes), one.shape, one.line, one.operation) for one in buffers)
    return Figures(("size", "array", "line", "operation"), rows)
