"""The same job on several clusters, or several finished runs: the best plan of each in time, money and energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.candidates.candidate import Candidate
from planner.candidates.cost import TOKENS, Cost
from planner.request.document import SCHEMA_VERSION, request_json
from planner.request.request import SearchRequest

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Cluster:
    """One side of a comparison: a request with its best plan; None where nothing fits."""

    name: str
    request: SearchRequest
    candidate: Candidate | None
    price_usd_per_device_hour: float | None = None
    note: str = ""
    """Why there is no plan."""

    @property
    def cost(self) -> Cost | None:
        """Device-hours, money and energy of a billion tokens."""
        if self.candidate is None:
            return None
        return Cost.of(self.candidate, self.request.hardware, self.price_usd_per_device_hour)

    @property
    def device_s_per_token(self) -> float | None:
        """Device-seconds of one token, idle devices of the job's domains included."""
        return None if self.cost is None else self.cost.device_hours * SECONDS_PER_HOUR / TOKENS

    @property
    def hours(self) -> float | None:
        """Hours of a billion tokens."""
        return None if self.candidate is None else TOKENS / self.candidate.best.tokens_per_s / SECONDS_PER_HOUR

    def to_json(self) -> dict[str, Any]:
        """The entry of ``clusters``."""
        cost = self.cost
        return {
            "name": self.name,
            "request": request_json(self.request),
            "candidate": self.candidate.to_json() if self.candidate else None,
            "device_s_per_token": self.device_s_per_token,
            "hours_per_1b_tokens": self.hours,
            "cost": cost.to_json() if cost else None,
            "note": self.note,
        }


@dataclass(frozen=True)
class Comparison:
    """Clusters in the order given."""

    clusters: tuple[Cluster, ...]
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether any cluster has a plan."""
        return any(cluster.candidate is not None for cluster in self.clusters)

    @property
    def cheapest(self) -> dict[str, str]:
        """The cluster that is best by each measure, where at least two have it."""
        measures = {
            "device-seconds": [one.device_s_per_token for one in self.clusters],
            "money": [one.cost.price_usd if one.cost else None for one in self.clusters],
            "energy": [one.cost.energy_kwh if one.cost else None for one in self.clusters],
            "time": [one.hours for one in self.clusters],
        }
        return {name: best for name, values in measures.items() if (best := self._least(values))}

    def _least(self, values: Sequence[float | None]) -> str:
        known = [(value, one.name) for value, one in zip(values, self.clusters, strict=True) if value is not None]
        return min(known)[1] if len(known) > 1 else ""

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``lcplan compare``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "clusters": [cluster.to_json() for cluster in self.clusters],
            "best": self.cheapest,
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a cluster, for CSV."""
        return [_row(cluster) for cluster in self.clusters]


def _row(cluster: Cluster) -> dict[str, Any]:
    best, cost = (cluster.candidate.best, cluster.cost) if cluster.candidate else (None, None)
    return {
        "name": cluster.name,
        "hardware": cluster.request.hardware.name,
        "devices": cluster.candidate.strategy.devices if cluster.candidate else None,
        "strategy": cluster.candidate.strategy.label if cluster.candidate else None,
        "rung": best.rung if best else None,
        "step_s": best.step_s if best else None,
        "tokens_per_s": best.tokens_per_s if best else None,
        "memory_bytes": best.memory_bytes if best else None,
        "device_s_per_token": cluster.device_s_per_token,
        "hours_per_1b_tokens": cluster.hours,
        **(cost.to_json() if cost else {}),
        "note": cluster.note,
    }
