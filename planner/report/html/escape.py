"""HTML from values: everything that comes from a user or a compiler is escaped here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from planner.report.charts.chart import Chart, Figures


def text(value: object) -> str:
    """A value as HTML text."""
    return escape(str(value), quote=True)


def element(name: str, *children: str, attributes: Mapping[str, str] | None = None) -> str:
    """An element around children that are HTML already; attribute values are escaped."""
    inside = "".join(f' {key}="{text(value)}"' for key, value in (attributes or {}).items())
    return f"<{name}{inside}>{''.join(children)}</{name}>"


def table(figures: Figures, caption: str) -> str:
    """A table with a caption for screen readers; the first cell of a row is its heading."""
    head = "".join(element("th", text(heading), attributes={"scope": "col"}) for heading in figures.headings)
    body = "".join(element("tr", *_cells(row)) for row in figures.rows)
    inner = element("caption", text(caption)) + element("thead", element("tr", head)) + element("tbody", body)
    wrap = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption}
    return element("div", element("table", inner), attributes=wrap)


def _cells(row: Sequence[str]) -> Iterable[str]:
    yield element("th", text(row[0]), attributes={"scope": "row"})
    for cell in row[1:]:
        yield element("td", text(cell))


def data_script(name: str, value: Any) -> str:
    """JSON for the page's script; it cannot end the element early."""
    raw = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{text(name)}">{raw}</script>'


def figure(chart: Chart, controls: str = "") -> str:
    """A chart with its words, and the table of its figures behind it."""
    place = {"class": "chart", "id": f"chart-{chart.name}", "role": "group", "aria-label": chart.says}
    note = element("p", text(chart.note), attributes={"class": "note"}) if chart.note else ""
    figures = element("details", element("summary", "Figures as a table"), table(chart.figures, chart.title))
    caption = element("figcaption", element("h2", text(chart.title), attributes={"id": f"title-{chart.name}"}))
    inner = (
        caption
        + controls
        + element("div", attributes=place)
        + note
        + figures
        + data_script(f"spec-{chart.name}", chart.in_page())
    )
    return element("figure", inner, attributes={"aria-labelledby": f"title-{chart.name}"})


def copyable(name: str, *, label: str, content: str) -> str:
    """Text with a button that copies it."""
    button = element(
        "button",
        f"Copy {text(label)}",
        attributes={"type": "button", "class": "copy", "data-copy": name, "aria-describedby": name},
    )
    return element(
        "div", button, element("pre", element("code", text(content), attributes={"id": name}), attributes={"tabindex": "0"})
    )


def choice(name: str, *, label: str, options: Sequence[tuple[str, str]]) -> str:
    """A labelled drop-down; options are values and words."""
    items = "".join(element("option", text(words), attributes={"value": value}) for value, words in options)
    select = element("select", items, attributes={"id": f"filter-{name}", "data-filter": name})
    return element("label", f"{text(label)} ", select)
