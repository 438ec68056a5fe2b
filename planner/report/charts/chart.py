"""Chart: a specification, a description in words, and its figures as a table; and the look that all charts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Names the grammar's version; nothing is fetched from it."""
PALETTE = (
    "#4C8BD6",
    "#E2852E",
    "#2FA37C",
    "#C767A8",
    "#B4A018",
    "#D9605A",
    "#54B5CE",
    "#8F7BD8",
    "#9B6B43",
    "#7D8792",
    "#5FA83A",
)
"""Colours that colour-blind people can distinguish in this order, at a contrast of 3:1 or more on white and on dark."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
PLOT_WIDTH = 760
"""Pixels of a chart outside a page, which has no width of its own to follow."""


@dataclass(frozen=True)
class Figures:
    """A table: headings, and rows of text of the same length."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """``name`` names its file and its element; a screen reader reads ``says``."""

    name: str
    title: str
    says: str
    spec: dict[str, Any]
    figures: Figures
    note: str = ""

    def in_page(self) -> dict[str, Any]:
        """The specification for the page: as wide as its place, in the page's own text colour."""
        return {"$schema": SCHEMA, "description": self.says, "config": look("currentColor"), **_wide("container", self.spec)}

    def alone(self) -> dict[str, Any]:
        """The specification for a file: a width and a white ground of its own."""
        head = {"$schema": SCHEMA, "title": self.title, "description": self.says, "background": "white"}
        return {**head, "config": look("#22262B"), "padding": 12, **_wide(PLOT_WIDTH, self.spec)}


def _wide(width: int | str, spec: dict[str, Any]) -> dict[str, Any]:
    """The specification with ``width`` where it leaves its own open (None)."""
    if "width" not in spec:
        return spec
    fit = {"autosize": {"type": "fit-x", "contains": "padding"}} if width == "container" else {}
    return spec | {"width": width} | fit


def look(ink: str) -> dict[str, Any]:
    """The shared configuration; ``ink`` is the colour of text and lines."""
    text = {
        "labelColor": ink,
        "titleColor": ink,
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    return {
        "background": "transparent",
        "view": {"stroke": None},
        "font": FONT,
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "gridColor": ink,
            "gridOpacity": 0.14,
            "domainColor": ink,
            "domainOpacity": 0.4,
            "tickColor": ink,
            "tickOpacity": 0.4,
            "labelLimit": 320,
        },
        "legend": {**text, "titleFontWeight": "normal", "symbolStrokeWidth": 0, "labelLimit": 260},
        "header": {"labelColor": ink, "titleColor": ink, "labelFont": FONT, "labelFontSize": 12, "labelLimit": 500},
        "title": {"color": ink, "font": FONT, "fontSize": 15, "anchor": "start", "offset": 14},
        "text": {"color": ink, "font": FONT, "fontSize": 12},
        "range": {"category": list(PALETTE)},
    }
