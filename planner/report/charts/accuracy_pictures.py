"""The accuracy page's pictures: predicted against measured, table by table, and how the errors are spread."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcplan.formats.textfile import write_text
from planner.report.charts.chart import PALETTE, SCHEMA, look
from planner.report.charts.vega import svg
from planner.validate.scoring.rankings import SPEEDS
from planner.validate.scoring.result import TableResult

PICTURES = ("predicted", "errors")
KINDS = ("speed", "memory")
POINTS = 60
"""Rows of one table that are drawn of each kind, spread evenly over the measured values."""
SIDE, COLUMNS = 118, 6
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?![\d\w])")
"""Coordinates, which need no more than a hundredth of a pixel."""
BIN, WIDEST = 0.05, 0.6
"""Errors are counted in bins of 5 %; errors beyond 60 % count in the outermost bin."""


def picture_name(stem: str, picture: str) -> str:
    """File of a picture of the page ``stem``."""
    return f"{stem}-{picture}.svg"


def write_pictures(results: Sequence[TableResult], page: Path) -> None:
    """Draw both pictures next to ``page``.

    Raises
    ------
    StageFailedError
        The extra that draws is not installed.
    OSError
        The folder cannot be written.
    """
    drawn = {"predicted": svg(predicted_chart(results)), "errors": svg(errors_chart(results))}
    facts = f"<metadata>{json.dumps(drawn_facts(results), separators=(',', ':'))}</metadata>"
    for picture, text in drawn.items():
        head = text.index(">", text.index("<svg")) + 1
        body = LONG_NUMBER.sub(lambda found: f"{float(found.group()):.2f}", text[head:])
        write_text(page.parent / picture_name(page.stem, picture), f"{text[:head]}{facts}{body}\n")


def drawn_facts(results: Sequence[TableResult]) -> dict[str, Any]:
    """The pictures in numbers: for each table its rows and their mean absolute error, by kind, and the bins."""
    tables = {}
    for result in results:
        for kind in KINDS:
            found = _errors(result, kind)
            if found:
                tables[f"{result.table.name} {kind}"] = [len(found), round(sum(map(abs, found)) / len(found), 4)]
    return {"tables": tables, "bins": {kind: sorted(_bins(results, kind).items()) for kind in KINDS}}


def predicted_chart(results: Sequence[TableResult]) -> dict[str, Any]:
    """A log-log square a table, the diagonal in it, each with scales of its own."""
    marks = [mark for result in results for mark in _marks(result)]
    position = {axis: _axis(axis) for axis in ("x", "y")}
    colours = {"field": "kind", "type": "nominal", "title": None, "scale": {"domain": list(KINDS), "range": list(PALETTE[:2])}}
    points = {"mark": {"type": "circle", "size": 14, "opacity": 0.6}, "encoding": {**position, "color": colours}}
    diagonal = {"mark": {"type": "line", "strokeWidth": 1, "color": "#9AA2AB"}, "encoding": position}
    layers = [diagonal | _only("diagonal", equal=True), points | _only("diagonal", equal=False)]
    header = {"title": None, "labelFontSize": 9, "labelLimit": SIDE + 40}
    return {
        **_head("Predicted against measured, both over the median measurement of their quantity in the table"),
        "data": {"values": marks},
        "facet": {"field": "table", "type": "nominal", "header": header, "sort": None},
        "columns": COLUMNS,
        "spec": {"width": SIDE, "height": SIDE, "layer": layers},
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


def errors_chart(results: Sequence[TableResult]) -> dict[str, Any]:
    """Rows by signed error, one strip per kind."""
    rows = [
        {"error": (bin_ + 0.5) * BIN, "rows": count, "kind": kind}
        for kind in KINDS
        for bin_, count in sorted(_bins(results, kind).items())
    ]
    outer = f"predicted over measured, less one ({WIDEST:.0%} and beyond in the outermost)"
    x = {"field": "error", "type": "quantitative", "title": outer, "axis": {"format": "+.0%", "tickCount": 13}}
    y = {"field": "rows", "type": "quantitative", "title": "rows"}
    colour = {"field": "kind", "type": "nominal", "legend": None, "scale": {"domain": list(KINDS), "range": list(PALETTE[:2])}}
    return {
        **_head("Rows by error"),
        "data": {"values": rows},
        "facet": {"row": {"field": "kind", "type": "nominal", "title": None, "sort": list(KINDS)}},
        "spec": {
            "width": 640,
            "height": 120,
            "mark": {"type": "bar", "size": 22},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        "resolve": {"scale": {"y": "independent"}},
    }


def _head(title: str) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "title": title,
        "background": "white",
        "padding": 12,
        "config": look("#22262B") | {"aria": False},
    }


def _axis(axis: str) -> dict[str, Any]:
    field = {"x": "measured", "y": "predicted"}[axis]
    ticks = {"tickCount": 3, "format": "~g", "labelFontSize": 9, "grid": False, "labelOverlap": True}
    return {"field": field, "type": "quantitative", "title": None, "scale": {"type": "log", "nice": False}, "axis": ticks}


def _only(field: str, *, equal: bool) -> dict[str, Any]:
    return {"transform": [{"filter": f"datum.{field} === {'true' if equal else 'false'}"}]}


def _points(result: TableResult, kind: str) -> dict[str, list[tuple[float, float, float]]]:
    """Return measured, predicted and error of each row, by quantity of the kind; a row counts once."""
    names = SPEEDS if kind == "speed" else ("peak_bytes",)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in result.rows:
        name = next((name for name in names if name in row.error_ratio), None)
        if name is not None:
            point = (float(row.measured[name]), float(row.predicted[name]), row.error_ratio[name])
            found.setdefault(name, []).append(point)
    return found


def _errors(result: TableResult, kind: str) -> list[float]:
    return [error for points in _points(result, kind).values() for _, _, error in points]


def _marks(result: TableResult) -> Iterator[dict[str, Any]]:
    """Points relative to the table's measured median, so that quantities share a square, and the ends of its diagonal."""
    ends: list[float] = []
    for kind in KINDS:
        for points in _points(result, kind).values():
            middle = sorted(points)[len(points) // 2][0]
            for measured, predicted in _picked(points):
                sides = (measured / middle, predicted / middle)
                ends += sides
                yield {"table": result.table.name, "kind": kind, "diagonal": False, "measured": sides[0], "predicted": sides[1]}
    for end in (min(ends) / 1.2, max(ends) * 1.2) if ends else ():
        yield {"table": result.table.name, "kind": KINDS[0], "diagonal": True, "measured": end, "predicted": end}


def _picked(points: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Pick at most ``POINTS`` rows, spread evenly over the measured values."""
    ranked = sorted(points)
    places = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), POINTS)).astype(int))
    return [ranked[i][:2] for i in places]


def _bins(results: Sequence[TableResult], kind: str) -> Counter[int]:
    last = round(WIDEST / BIN)
    errors = [error for result in results for error in _errors(result, kind)]
    return Counter(min(max(math.floor(error / BIN), -last), last - 1) for error in errors)
