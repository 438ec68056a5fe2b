"""Devices that a winner leaves unused: the reason, and the change of the request that would use more of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from planner.candidates.candidate import Candidate
from planner.request.request import default_global_batch
from planner.request.request_changes import Ask
from planner.space.analysis import Analysis, setting_of
from planner.space.meshes import keeping
from planner.what_if.fastest import fastest_that_fits
from planner.workloads.registry import planned

MOST_BATCHES = 3
"""Batches that are tried, nearest first; each costs a part of a search."""
COUNT_RULES = frozenset({"devices", "whole-hosts", "even-segments", "few-devices"})
"""Rules on the number of devices, which do not depend on the model or the batch."""
LEAST_GAIN = 1.01
"""Tokens/s over the winner's from which a change is worth a line: below, two strategies tie."""


@dataclass(frozen=True)
class DeviceUse:
    """How many of the devices the winner uses, why not more, and the change that would use more."""

    used: int
    there: int
    why: str
    change: str = ""
    """An option with its value; empty: no change that was tried uses more and is faster."""
    change_devices: int = 0
    gain_ratio: float = 1.0
    """Tokens/s with the change over the winner's."""

    @property
    def says(self) -> str:
        """The fact, the reason and the change in one line."""
        more = (
            f"; {self.change} would use {self.change_devices:,}, for {self.gain_ratio - 1:.0%} more tokens/s"
            if self.change
            else ""
        )
        return f"uses {self.used:,} of {self.there:,} devices: {self.why}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return the document ``device_use``."""
        change = {"option": self.change, "devices": self.change_devices, "tokens_per_s_ratio": self.gain_ratio}
        return {"used": self.used, "there": self.there, "why": self.why, "change": change if self.change else None}


def device_use(analysis: Analysis, winner: Candidate, ask: Ask) -> DeviceUse | None:
    """Return how a winner leaves devices unused; None where it uses all, or all that the request asks for."""
    request = ask.request
    used, there = winner.strategy.devices, request.devices or request.hardware.devices
    if used >= there or request.hardware.kind == "cpu":
        return None
    why = _why(analysis, winner, ask)
    for option, changed in _changes(ask):
        found = fastest_that_fits(changed)
        gain = found.estimate["tokens_per_s"] / winner.estimate["tokens_per_s"] if found is not None else 0.0
        if found is not None and found.strategy.devices > used and gain >= LEAST_GAIN:
            return DeviceUse(used, there, why, option, found.strategy.devices, gain)
    return DeviceUse(used, there, why)


def _why(analysis: Analysis, winner: Candidate, ask: Ask) -> str:
    used, table, estimates = winner.strategy.devices, analysis.table, analysis.estimates
    more = table.devices > used
    if not more.any():
        return f"no mesh on more keeps the rules{_rule(ask, used)}"
    fitting = more & estimates.fits
    if not fitting.any():
        return f"of {int(more.sum()):,} strategies on more devices, no one fits the budget"
    if ask.request.objective == "tokens_per_s_per_device":
        return "the objective is tokens/s per device"
    slower = float(estimates.step_s[fitting].min()) / winner.estimate["step_s"]
    return f"the fastest strategy that fits on more devices takes {slower:.3g} times as long"


def _rule(ask: Ask, used: int) -> str:
    """An example of the last rule that meshes on more devices break: they keep all rules before it."""
    request, workload, setting = ask.request, planned(ask.request), setting_of(ask.request)
    rejected = keeping(
        request,
        setting,
        workload.mesh_rules,
        most_devices=ask.most_devices,
        least_devices=used + 1,
        weigh=lambda shapes, splits: splits[0][shapes.ranks],
    ).rejected
    names = [name for name in rejected.counts if name not in COUNT_RULES]
    return f": {rejected.example(setting, names[-1]).partition(';')[0]}" if names else ""


def _changes(ask: Ask) -> Iterator[tuple[str, Ask]]:
    """Options, each with the request under it: no fixed segment, then batches that more devices can share."""
    request = ask.request
    if request.filters.segment:
        filters = request.filters.model_copy(update={"segment": ()})
        yield "no --segment", ask.with_request(request.model_copy(update={"filters": filters}))
    facts = request.workload.facts
    option = f"--{facts.batch_field.replace('_', '-')}"
    for batch in islice(_batches(ask), MOST_BATCHES):
        workload = request.workload.resized(global_batch=batch, given=True)
        yield f"{option} {batch}", ask.with_request(request.model_copy(update={"workload": workload}))


def _batches(ask: Ask) -> Iterator[int]:
    """Multiples of the odd part of the devices near the batch, the larger first: other axes are mostly powers of two.

    Whole domains and the largest power of two in each give two such parts. Then the default batch.
    """
    request, hardware = ask.request, ask.request.hardware
    batch, domain = request.workload.global_batch, hardware.domain_size
    parts = [_odd(hardware.devices), _odd(hardware.domains * 2 ** (domain.bit_length() - 1))]
    near = [size for part in parts if part > 1 for size in (-(-batch // part) * part, batch // part * part)]
    default = default_global_batch(request.workload.seq_len, hardware)
    yield from (size for size in dict.fromkeys([*near, default]) if size not in (0, batch))


def _odd(number: int) -> int:
    """The largest odd divisor.

    >>> _odd(72)
    9
    """
    return number // (number & -number)
