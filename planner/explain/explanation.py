"""Explanation: everything that is known of one strategy of a run, as a value and as a JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.candidates.cost import Cost
from planner.explain.basis import PartBasis, measured_share, part_bases
from planner.explain.inventory import Line, inventory, trouble
from planner.explain.shifts import Shift, shifts
from planner.explain.traffic import Exposure, Transfer, exposures, transfers
from planner.explain.why import Difference, Verdict, differences, verdict
from planner.measure.targets.backends import GPU_BACKENDS
from planner.request.document import SCHEMA_VERSION, request_json
from planner.run.run_read import Run
from planner.space.analysis import setting_of
from planner.workloads.pricing import price


@dataclass(frozen=True)
class Explanation:
    """One strategy of a run. ``others`` and ``shifts`` are the winner's; ``compared`` is a second strategy to compare with."""

    run: Run
    candidate: Candidate
    verdict: Verdict
    transfers: tuple[Transfer, ...]
    exposures: tuple[Exposure, ...]
    bases: tuple[PartBasis, ...]
    inventory: tuple[Line, ...]
    trouble: tuple[str, ...]
    cost: Cost
    others: tuple[Verdict, ...] = ()
    shifts: tuple[Shift, ...] = ()

    @property
    def backend_needs(self) -> str:
        """The conditions of the strategy's backend at run time; empty where it has no conditions of its own."""
        facts = GPU_BACKENDS.get(self.candidate.strategy.backend)
        return facts.needs if facts is not None and facts.options else ""

    @property
    def measured_share(self) -> float:
        """Share of the modelled step that rests on rates measured on this kind of device."""
        return measured_share(self.bases)

    def to_json(self) -> dict[str, Any]:
        """The document of ``lcplan explain``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "request": request_json(self.run.request),
            "candidate": self.candidate.to_json(),
            "verdict": verdict_json(self.verdict),
            "cost": self.cost.to_json(),
            "communication": [
                {"part": e.part, "transfer_s": e.transfer_s, "exposed_s": e.exposed_s, "hidden_s": e.hidden_s}
                for e in self.exposures
            ],
            "backend_needs": self.backend_needs,
            "transfers": [asdict(transfer) for transfer in self.transfers],
            "basis": {
                "measured_share_ratio": self.measured_share,
                "parts": [
                    {"part": b.part, "step_s": b.seconds, "measured": b.measured, "rates": dict(b.rates)} for b in self.bases
                ],
            },
            "collectives": [asdict(line) | {"verdict": line.verdict} for line in self.inventory],
            "trouble": list(self.trouble),
            "others": [verdict_json(other) for other in self.others],
            "shifts": [
                {
                    "quantity": shift.quantity,
                    "value": shift.value,
                    "same_strategy": shift.same,
                    "candidate": shift.candidate.to_json() if shift.candidate else None,
                }
                for shift in self.shifts
            ],
        }


@dataclass(frozen=True)
class Comparison:
    """Two strategies of one run, term by term; differences are second less first."""

    run: Run
    first: Explanation
    second: Explanation
    memory: tuple[Difference, ...]
    time: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of ``lcplan explain RUN FIRST SECOND``."""

        def terms(found: tuple[Difference, ...]) -> list[dict[str, Any]]:
            return [{"term": one.term, "first": one.first, "second": one.second, "more": one.more} for one in found]

        return {
            "schema_version": SCHEMA_VERSION,
            "request": request_json(self.run.request),
            "first": self.first.candidate.to_json(),
            "second": self.second.candidate.to_json(),
            "verdict": verdict_json(self.second.verdict),
            "memory_bytes": terms(self.memory),
            "time_s": terms(self.time),
        }


def verdict_json(found: Verdict) -> dict[str, Any]:
    """A verdict as scripts read it."""
    strategy = found.candidate.strategy
    return {
        "strategy": {"devices": strategy.devices, **strategy.model_dump(mode="json")},
        "reason": found.reason,
        "says": list(found.says),
        "slower_ratio": found.slower_ratio,
        "terms_s": {term.term: term.more for term in found.terms},
        "ways": list(found.ways),
        "break_even": [{"quantity": e.quantity, "value": e.value, "says": e.says} for e in found.break_evens],
    }


def explain(run: Run, strategy: Strategy | None = None, *, price_usd_per_device_hour: float | None = None) -> Explanation:
    """Explain a strategy of the run; by default the winner, or the closest miss where nothing fits."""
    request, winner = run.request, run.winner
    candidate = _candidate(run, strategy)
    setting = setting_of(request)
    moved = transfers(setting, candidate)
    lines = inventory(candidate, moved)
    won = winner is not None and candidate.strategy == winner.strategy
    others = [one for one in run.candidates if one.strategy != candidate.strategy] if won else []
    return Explanation(
        run=run,
        candidate=candidate,
        verdict=verdict(request, candidate, winner=winner),
        transfers=moved,
        exposures=exposures(candidate, moved),
        bases=part_bases(candidate, moved),
        inventory=lines,
        trouble=trouble(candidate, lines),
        cost=Cost.of(candidate, request.hardware, price_usd_per_device_hour),
        others=tuple(verdict(request, other, winner=winner, deep=False) for other in others),
        shifts=shifts(request, run.backends, winner=candidate.strategy) if won else (),
    )


def compare(run: Run, *, first: Strategy, second: Strategy) -> Comparison:
    """Two strategies term by term."""
    one, other = explain(run, first), explain(run, second)
    return Comparison(
        run=run,
        first=one,
        second=other,
        memory=differences(one.candidate, other.candidate, parts="memory_bytes"),
        time=differences(one.candidate, other.candidate, parts="time_s"),
    )


def _candidate(run: Run, strategy: Strategy | None) -> Candidate:
    if strategy is None:
        found = run.chosen
        if found is None:
            from lcplan.formats.errors import BadInputError

            raise BadInputError(f"{run.path}: the run has no candidate to explain; name a strategy")
        return found
    known = next((one for one in run.candidates if one.strategy == strategy), None)
    return known or price(run.request, strategy)
