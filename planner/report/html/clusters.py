"""The page of ``lcplan compare``: one table in one file, readable without a script or a request to anywhere."""

from __future__ import annotations

from planner.report.html.template import render_clusters
from planner.report.view.clusters import HEADINGS, LEGEND, best_lines, cluster_rows
from planner.report.view.request import asked, title
from planner.run.clusters import Comparison


def clusters_page(comparison: Comparison) -> str:
    """The whole page."""
    request = comparison.clusters[0].request
    return render_clusters(
        {
            "title": f"{title(request)}: clusters",
            "asked": asked(request),
            "rows": cluster_rows(comparison),
            "headings": HEADINGS,
            "legend": LEGEND,
            "best": best_lines(comparison),
            "notes": [*(f"{one.name}: {one.note}" for one in comparison.clusters if one.note), *comparison.notes],
        }
    )
