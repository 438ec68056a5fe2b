"""When nothing fits: the smallest change of each kind that would make something fit, cheapest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.candidates.candidate import Candidate
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.changes.change_divisors import divisor_kinds
from planner.what_if.changes.change_kinds import KINDS, Proposal
from planner.what_if.feasible import best_row, fits_any, rules_leave_any
from planner.workloads.points import valid_points
from planner.workloads.pricing import price_table
from planner.workloads.registry import planned

LAST_RESORTS = frozenset({"devices", "budget"})
"""Kinds that come after all others, whatever they cost: more hardware, and memory that the runtime was to have."""


@dataclass(frozen=True)
class Change:
    """One change to the request, and the best strategy that then fits."""

    kind: str
    says: str
    """The change in words, with its option if it has one."""
    arguments: tuple[str, ...]
    """Arguments to add to the command line (an option that is given already is replaced)."""
    ask: Ask
    """The changed request with its limit of devices."""
    candidate: Candidate

    @property
    def step_s(self) -> float:
        """The changed request's best step [s]."""
        return float(self.candidate.estimate["step_s"])

    @property
    def device_s_per_token(self) -> float:
        """Device time per token after the change [device s per token]; changes are ranked by it."""
        return self.step_s * self.candidate.strategy.devices / self.ask.request.workload.tokens

    def to_json(self) -> dict[str, object]:
        """One entry of ``changes_that_fit``."""
        return {
            "change": self.says,
            "kind": self.kind,
            "arguments": list(self.arguments),
            "step_s": self.step_s,
            "device_s_per_token": self.device_s_per_token,
            "strategy": {"devices": self.candidate.strategy.devices, **self.candidate.strategy.model_dump(mode="json")},
        }


def changes_that_fit(ask: Ask, *, without: Iterable[str] = ()) -> list[Change]:
    """Single changes after which something fits, by device time per token and step time.

    Changes of the job come first, more hardware and a larger budget last. Each is the smallest of its kind that is enough:
    the longest sequence below, the next policy, the fewest devices above, and so on. Priced by the same cost model over the
    whole space of the changed request. ``without``: kinds (of ``KINDS``) that are not wanted.
    """
    found: dict[tuple[str, ...], Change] = {}
    kinds = [*divisor_kinds(ask, blocked=not rules_leave_any(ask)).items(), *KINDS.items()]
    for name, kind in kinds:
        if name in without or name in planned(ask.request).foreign_changes:
            continue
        for group in kind(ask):
            change = next((made for made in (_made(name, proposal) for proposal in group) if made is not None), None)
            if change is not None:
                found.setdefault(change.arguments, change)
    return sorted(found.values(), key=lambda change: (change.kind in LAST_RESORTS, change.device_s_per_token))


def _made(kind: str, proposal: Proposal) -> Change | None:
    ask = proposal.ask
    if not fits_any(ask):
        return None
    table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
    estimates = price_table(setting_of(ask.request), table)
    row = best_row(table, estimates, objective=ask.request.objective, fits=estimates.fits)
    if row is None:
        return None
    candidate = Candidate(strategy=table.strategy(row), estimate=estimates.row(row))
    says, arguments = proposal.told(candidate.strategy)
    return Change(kind=kind, says=says, arguments=arguments, ask=proposal.pinned(candidate.strategy), candidate=candidate)
