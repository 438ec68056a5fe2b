"""The page's template, filled in: Jinja2 escapes every value, so that text of users and compilers stays text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lcplan import __version__
from planner.report.charts.vega import javascript
from planner.report.view.chart_page import ChartPage
from planner.report.view.page import Page

TEMPLATE = "report.html.j2"
CLUSTERS = "clusters.html.j2"
CHARTS = "charts.html.j2"


def render(page: Page) -> str:
    """The page as HTML."""
    return _with_scripts(TEMPLATE, page)


def render_charts(page: ChartPage) -> str:
    """A page of charts and tables as HTML."""
    return _with_scripts(CHARTS, page)


def _with_scripts(template: str, page: Page | ChartPage) -> str:
    scripts = (_script(javascript()), _script(_asset("report.js")))
    made = _environment().get_template(template)
    return made.render(page=page, version=__version__, style=_asset("report.css"), scripts=scripts)


def render_clusters(values: Mapping[str, Any]) -> str:
    """The page of a comparison of clusters as HTML."""
    return _environment().get_template(CLUSTERS).render(**values, style=_asset("report.css"))


@cache
def _environment() -> Environment:
    """Templates of the report: every value is escaped, and a misspelt name is an error."""
    made = Environment(
        loader=PackageLoader("planner.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _asset(name: str) -> Markup:
    """A file of lcplan's own, which goes into the page as it is."""
    return Markup(resources.files("planner.report").joinpath("assets", name).read_text(encoding="utf-8"))  # noqa: S704


def _script(source: str) -> Markup:
    """A script inside HTML must not hold its own end tag."""
    return Markup(source.replace("</script", "<\\/script"))  # noqa: S704
