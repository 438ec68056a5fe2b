"""A comparison of clusters as rows of text, the same in the terminal and on the page."""

from __future__ import annotations

from typing import NamedTuple

from planner.report.view.labels import mesh_label
from planner.report.view.performance import Performance, headroom
from planner.run.clusters import Cluster, Comparison


class ClusterRow(NamedTuple):
    """One cluster."""

    cluster: str
    devices: str
    mesh: str
    scheme: str
    remat: str
    step: str
    tokens_per_s: str
    device_s: str
    hours: str
    usd: str
    kwh: str
    memory: str
    free: str


HEADINGS = ClusterRow(
    "cluster",
    "devices",
    "mesh",
    "scheme",
    "remat",
    "step",
    "tokens/s",
    "device-s/M tokens",
    "h",
    "USD",
    "kWh",
    "memory",
    "free",
)
LEGEND = "h, USD, kWh: of 1 B tokens; kWh of the devices at full power; free: budget less memory and allowance"
WORDS = {
    "device-seconds": "fewest device-seconds per token",
    "money": "least money",
    "energy": "least energy",
    "time": "least time",
}


def cluster_rows(comparison: Comparison) -> tuple[ClusterRow, ...]:
    """Rows in the order of the comparison."""
    return tuple(map(_row, comparison.clusters))


def best_lines(comparison: Comparison) -> tuple[str, ...]:
    """The best cluster by each measure, one sentence each."""
    return tuple(f"{WORDS[name]}: {cluster}" for name, cluster in comparison.cheapest.items())


def _row(cluster: Cluster) -> ClusterRow:
    candidate, cost = cluster.candidate, cluster.cost
    if candidate is None or cost is None:
        return ClusterRow(cluster.name, *["-"] * (len(ClusterRow._fields) - 1))
    strategy, shown = candidate.strategy, Performance.of(candidate)
    sampled = strategy.sampling
    knobs = (sampled.parameters, sampled.cache) if sampled else (strategy.scheme_label, strategy.remat_label)
    return ClusterRow(
        cluster.name,
        f"{strategy.devices}{f' +{candidate.idle_devices} idle' if candidate.idle_devices else ''}",
        mesh_label(strategy).partition(": ")[2] or "-",
        *knobs,
        shown.marked_step,
        shown.tokens_per_s,
        f"{(cluster.device_s_per_token or 0.0) * 1e6:,.0f}",
        f"{cluster.hours or 0.0:,.4g}",
        "-" if cost.price_usd is None else f"{cost.price_usd:,.0f}",
        "-" if cost.energy_kwh is None else f"{cost.energy_kwh:,.4g}",
        shown.marked_memory,
        headroom(candidate, cluster.request.budget_bytes),
    )
