"""Read a run back: the request, the candidates with their evidence, and the rejections with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.textfile import read_json
from lcplan.strategy import Strategy
from lcplan.strategy.remat import STORED_NAMES, of_stored
from planner.candidates.candidate import Candidate
from planner.candidates.learning import Learnt
from planner.request.document import SCHEMA_VERSION
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.run.result import SpaceCounts


class _Estimate(Frozen):
    """Fields that every estimate has and that renderers read; an estimate may have more."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    step_s: Annotated[float, Field(gt=0)]
    tokens_per_s: Annotated[float, Field(gt=0)]
    tflop_per_s_per_device: float
    mfu_ratio: float
    fits: bool
    allowance_bytes: float
    memory_bytes: dict[str, float]
    time_s: dict[str, float]
    basis: dict[str, str] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if "total" not in self.memory_bytes:
            raise ValueError("memory_bytes has no total")
        return self


@dataclass(frozen=True)
class Run:
    """A finished search, or the one candidate of a plan. ``space`` and ``rejected_examples`` are a search's only."""

    path: Path
    request: SearchRequest
    candidates: tuple[Candidate, ...]
    space: SpaceCounts | None
    rejected_examples: dict[str, str]
    nearest_miss: Candidate | None
    changes: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    plan_file: Path | None
    tuning: tuple[dict[str, Any], ...] = ()
    """The tuner's trials in order."""

    @property
    def winner(self) -> Candidate | None:
        """The best candidate that fits."""
        return next((candidate for candidate in self.candidates if candidate.best.fits), None)

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """The candidates, or the nearest miss of a run without candidates."""
        return self.candidates or ((self.nearest_miss,) if self.nearest_miss is not None else ())

    @property
    def chosen(self) -> Candidate | None:
        """The winner, else the first that is shown; None: the run has no candidate."""
        return self.winner or next(iter(self.shown), None)

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that the run's candidates have; the hardware's first backend for a run without candidates."""
        seen = {candidate.strategy.backend for candidate in self.candidates}
        return tuple(name for name in self.request.hardware.backends if name in seen) or self.request.hardware.backends[:1]


def read_run(path: str | Path) -> Run:
    """A run's folder, its ``result.json``, or a plan file.

    Raises
    ------
    BadInputError
        No such file, no run in the folder, or a document of another kind or a newer version.
    """
    place = Path(path)
    if place.suffix in {".yaml", ".yml"}:
        return _from_plan(place)
    folder = place if place.is_dir() else place.parent
    result = folder / "result.json" if place.is_dir() else place
    if not result.exists():
        what = "no such file or folder" if not place.exists() else "no result.json in it; is it the folder of an lcplan search?"
        raise BadInputError(f"{place}: {what}")
    return _from_folder(folder, result)


def _from_folder(folder: Path, result: Path) -> Run:
    document, request_file = read_json(result), folder / "request.json"
    if not isinstance(document, dict) or "candidates" not in document or "space" not in document:
        raise BadInputError(f"{result}: not the result of an lcplan search")
    if document.get("kind") == "own-step":
        raise BadInputError(f"{result}: the run of a step of your own; lcplan fits and lcplan inspect read it")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise BadInputError(f"{result}: schema_version {version!r}; this lcplan reads {SCHEMA_VERSION}")
    plan = folder / "plan.yaml"
    miss = document.get("nearest_miss")
    try:
        return Run(
            path=folder,
            request=stored_request(read_json(request_file), request_file),
            candidates=tuple(candidate_from_json(entry) for entry in document["candidates"]),
            space=SpaceCounts(**document["space"]),
            rejected_examples=dict(document.get("rejected_examples", {})),
            nearest_miss=candidate_from_json(miss) if miss else None,
            changes=tuple(document.get("changes_that_fit", ())),
            notes=tuple(document.get("notes", ())),
            plan_file=plan if plan.exists() else None,
            tuning=tuple(document.get("tuning", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(f"{result}: not a whole result of an lcplan search ({type(error).__name__}: {error})") from None


def stored_request(document: Any, file: Path) -> SearchRequest:
    """Read the request of a run's folder, also of an earlier lcplan, whose remat policies get their names of today.

    Raises
    ------
    BadInputError
        The document is no request.
    """
    filters = document.get("filters") if isinstance(document, dict) else None
    if isinstance(filters, dict) and isinstance(filters.get("remat"), list):
        names = [STORED_NAMES.get(name, name) if isinstance(name, str) else name for name in filters["remat"]]
        document = document | {"filters": filters | {"remat": names}}
    return SearchRequest.read(document, str(file))


def _from_plan(place: Path) -> Run:
    plan = Plan.load(place)
    evidence = plan.evidence
    _Estimate.read(evidence.estimate, f"{place}: evidence.estimate")
    request = SearchRequest.model_validate(plan.request.model_dump() | {"filters": Filters()})
    candidate = Candidate(plan.strategy, evidence.estimate, evidence.compiled, evidence.timed)
    return Run(place, request, (candidate,), None, {}, None, (), (), place)


def candidate_from_json(entry: dict[str, Any]) -> Candidate:
    """``CANDIDATE`` back as a value; ``best`` follows from the rest.

    Raises
    ------
    KeyError, TypeError, ValueError
        The row is not a candidate, or its estimate is incomplete.
    """
    _Estimate.model_validate(entry["estimate"])
    strategy = {name: value for name, value in entry["strategy"].items() if name != "devices"}
    return Candidate(
        strategy=Strategy.model_validate(of_stored(strategy)),
        estimate=dict(entry["estimate"]),
        compiled=Compiled.model_validate(entry["compiled"]) if entry.get("compiled") else None,
        timed=Timed.model_validate(entry["timed"]) if entry.get("timed") else None,
        learnt=Learnt(**entry["learnt"]) if entry.get("learnt") else None,
        backend_step_s=dict(entry.get("backend_step_s", {})),
    )
