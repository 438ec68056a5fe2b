"""SearchResult: the result of a search, as a value and as the JSON document that scripts read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.candidates.candidate import Candidate
from planner.candidates.data_frame import frame
from planner.candidates.ranking import ties
from planner.candidates.rows import flat_row
from planner.request.document import SCHEMA_VERSION, request_json
from planner.request.request import SearchRequest
from planner.run.device_use import DeviceUse
from planner.what_if.changes.smallest_change import Change

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class SpaceCounts:
    """How many strategies went through each stage."""

    enumerated: int
    rejected: dict[str, int]
    over_budget: int
    estimated: int
    survivors: int


@dataclass(frozen=True)
class SearchResult:
    """``candidates`` best first, failed compiles last; ``winner`` is the first that fits, or None."""

    request: SearchRequest
    counts: SpaceCounts
    candidates: tuple[Candidate, ...]
    nearest_miss: Candidate | None
    reasons: dict[str, str]
    """One example message a rule that rejected anything."""
    changes: tuple[Change, ...] = ()
    """Single changes to the request that would make a strategy fit, where no strategy does."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: a missing toolchain, a batch that lcplan chose, a changed evidence level."""
    alternatives: tuple[tuple[Candidate, tuple[str, ...]], ...] = ()
    """Modelled plans that show the choice, best first, each with its reasons: the front of time against memory, and the best
    of each remat policy, scheme and mesh family."""
    device_use: DeviceUse | None = None
    """The devices that the winner leaves unused, where it leaves any."""
    tuning: tuple[dict[str, Any], ...] = ()
    """The tuner's trials in order: the strategy, how far it got, and the outcome."""

    @property
    def winner(self) -> Candidate | None:
        """The best candidate that fits on the best evidence."""
        return next((c for c in self.candidates if c.best.fits), None)

    @property
    def ties(self) -> tuple[Candidate, ...]:
        """Candidates that tie with the winner, the fastest first."""
        return ties(list(self.candidates), self.request.objective)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a candidate, for CSV and data frames."""
        return [flat_row(candidate) for candidate in self.candidates]

    def to_pandas(self) -> DataFrame:
        """The candidates as a data frame (extra ``pandas``)."""
        return frame(self.rows())

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``lcplan search``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "request": request_json(self.request),
            "space": {
                "enumerated": self.counts.enumerated,
                "rejected": self.counts.rejected,
                "over_budget": self.counts.over_budget,
                "estimated": self.counts.estimated,
                "survivors": self.counts.survivors,
            },
            "winner": self.winner.to_json() if self.winner else None,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "ties": [candidate.strategy.label for candidate in self.ties],
            "alternatives": [candidate.to_json() | {"best_of": list(reasons)} for candidate, reasons in self.alternatives],
            "nearest_miss": self.nearest_miss.to_json() if self.nearest_miss else None,
            "device_use": self.device_use.to_json() if self.device_use else None,
            "changes_that_fit": [change.to_json() for change in self.changes],
            "rejected_examples": self.reasons,
            "notes": list(self.notes),
            "tuning": list(self.tuning),
        }
