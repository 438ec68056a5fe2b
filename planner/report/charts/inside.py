"""Charts of an executable: the work of its streams over a step, its memory over the schedule, and its time by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cost_models.executable.timeline import Span
from lcplan.evidence.execution import MemoryCurve
from lcplan.formats.units import GIB, format_bytes, format_seconds
from planner.report.charts.chart import Chart, Figures

LONGEST_ROWS = 40
MILLI = 1e3


def timeline_chart(spans: Sequence[Span]) -> Chart:
    """Draw one row for each stream of a device."""
    values = [
        {"stream": one.stream, "part": one.part, "start": one.start_s * MILLI, "end": one.end_s * MILLI, "runs": one.runs}
        for one in spans
    ]
    streams = list(dict.fromkeys(one.stream for one in spans))
    spec = {
        "width": None,
        "height": 56 * max(1, len(streams)),
        "data": {"values": values},
        "mark": {"type": "bar", "height": 30},
        "encoding": {
            "y": {"field": "stream", "type": "nominal", "sort": streams, "title": None},
            "x": {"field": "start", "type": "quantitative", "title": "milliseconds from the start of the step"},
            "x2": {"field": "end"},
            "color": {"field": "part", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 2}},
            "tooltip": [
                {"field": "part", "type": "nominal"},
                {"field": "start", "type": "quantitative", "format": ".4g", "title": "from [ms]"},
                {"field": "end", "type": "quantitative", "format": ".4g", "title": "to [ms]"},
                {"field": "runs", "type": "quantitative", "title": "runs of a loop"},
            ],
        },
    }
    longest = sorted(spans, key=lambda one: one.start_s - one.end_s)[:LONGEST_ROWS]
    rows = tuple(
        (one.part, one.stream, format_seconds(one.start_s), format_seconds(one.end_s - one.start_s), str(one.runs))
        for one in sorted(longest, key=lambda one: one.start_s)
    )
    says = "Compute and communication of one device over a step, in the order of the schedule, with estimated durations."
    note = (
        "The order is the executable's schedule; the durations are estimated. Of a loop the first run is drawn, and all later"
        " runs as one long run. Very short neighbours are drawn as one."
    )
    return Chart("timeline", "Timeline of a step", says, spec, Figures(("part", "stream", "from", "time", "runs"), rows), note)


def memory_chart(curve: MemoryCurve) -> Chart:
    """Draw the bytes that are alive over the schedule, with the moment of the peak."""
    count = len(curve.bytes)
    values = [{"at": 100.0 * (index + 0.5) / count, "gib": round(size / GIB, 4)} for index, size in enumerate(curve.bytes)]
    peak = {"at": 100.0 * (curve.peak_at + 0.5) / curve.instructions, "gib": round(curve.peak_bytes / GIB, 4)}
    place = curve.line or curve.operation[-60:]
    words = f"peak {format_bytes(curve.peak_bytes)}"
    x = {
        "field": "at",
        "type": "quantitative",
        "title": "percent of the schedule's instructions",
        "scale": {"domain": [0, 100]},
    }
    y = {"field": "gib", "type": "quantitative", "title": "GiB alive on a device"}
    mark = {"at": peak["at"], "gib": peak["gib"], "words": words}
    spec = {
        "width": None,
        "height": 220,
        "layer": [
            {
                "data": {"values": values},
                "mark": {"type": "area", "interpolate": "step", "opacity": 0.65},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [mark]},
                "mark": {"type": "point", "filled": True, "size": 90, "color": "#D9605A"},
                "encoding": {"x": x, "y": y, "tooltip": [{"field": "words", "type": "nominal", "title": "peak"}]},
            },
            {
                "data": {"values": [mark]},
                "mark": {"type": "text", "dy": -10, "align": "left" if peak["at"] < 60 else "right"},
                "encoding": {"x": x, "y": y, "text": {"field": "words"}},
            },
        ],
    }
    step = max(1, count // 24)
    rows = tuple((f"{values[index]['at']:.0f}%", format_bytes(curve.bytes[index])) for index in range(0, count, step))
    says = f"Memory alive over the schedule; {words}, at {place}."
    note = (
        f"The peak is at instruction {curve.peak_at:,} of {curve.instructions:,}, {place} ({curve.operation[-80:]})."
        " The bodies of loops are in the schedule once. The executable needs more than the sum where its placement leaves gaps."
    )
    return Chart("memory", "Memory over the step", says, spec, Figures(("schedule", "alive"), rows), note)


def shares_chart(parts: Mapping[str, float]) -> Chart:
    """Draw the time of a step by part."""
    total = sum(parts.values()) or 1.0
    ordered = sorted(((name, seconds) for name, seconds in parts.items() if seconds > 0), key=lambda pair: -pair[1])
    spec = {
        "width": None,
        "height": 26 * max(1, len(ordered)),
        "data": {"values": [{"part": name, "ms": seconds * MILLI} for name, seconds in ordered]},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {"field": "part", "type": "nominal", "sort": [name for name, _ in ordered], "title": None},
            "x": {"field": "ms", "type": "quantitative", "title": "milliseconds per step (estimated)"},
            "tooltip": [{"field": "part", "type": "nominal"}, {"field": "ms", "type": "quantitative", "format": ".4g"}],
        },
    }
    rows = tuple((name, format_seconds(seconds), f"{seconds / total:.1%}") for name, seconds in ordered)
    says = "Step time by part as bars; the table below has every figure."
    return Chart("parts", "Step time by part", says, spec, Figures(("part", "time", "share"), rows))
