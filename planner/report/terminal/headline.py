"""The request above every answer."""

from __future__ import annotations

from rich.text import Text

from planner.report.view import request as view
from planner.request.request import SearchRequest


def headline(request: SearchRequest) -> Text:
    """The model and its work, and below it the hardware and its budget."""
    return Text(view.headline(request))
