"""A timed slice as a step: one rank's seconds, and the communication that the cost model leaves exposed."""

from __future__ import annotations

from cost_models.compute.host_time import shares_cores
from cost_models.parts.time import communication_seconds
from lcplan.evidence.measurement import Timed
from lcplan.formats.units import format_seconds
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest


def says(timed: Timed) -> str:
    """Describe the measurement behind a slice's seconds."""
    added = sum(timed.added_s.values())
    depths = " and ".join(str(layers) for layers in timed.extrapolation.layers) if timed.extrapolation else "all"
    turns = f" x {timed.ranks_in_turn} ranks that share its cores" if timed.ranks_in_turn > 1 else ""
    return (
        f"timed:slice: one rank's step on {timed.device}, {format_seconds(timed.rank_s or 0.0)} from {depths} layers{turns}, "
        f"and {format_seconds(added)} of communication as modelled"
    )


def whole_step(timed: Timed, candidate: Candidate, request: SearchRequest) -> Timed:
    """``timed`` with the modelled exposed time on top, each part named.

    A host's devices share its cores, so there the ranks' work follows one another; a slice had all cores for itself.
    """
    if timed.rung != "timed:slice" or timed.rank_s is None:
        return timed
    exposed = communication_seconds(candidate.estimate["time_s"])
    added = {name: seconds for name, seconds in exposed.items() if seconds > 0}
    ranks = candidate.strategy.devices if shares_cores(request.hardware) else 1
    return timed.model_copy(
        update={"step_s": timed.rank_s * ranks + sum(added.values()), "added_s": added, "ranks_in_turn": ranks}
    )
