"""Shifts: the changes of the request that would make another strategy win."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lcplan.formats.units import format_bytes, format_tokens
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.what_if.fastest import fastest_that_fits
from planner.what_if.vary import QUANTITIES, Value, Varied, applied, combinations, link_bandwidth

FACTORS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Shift:
    """The best strategy by the cost model at ``quantity`` = ``value`` (``label`` for people); None: nothing fits."""

    quantity: str
    value: Value
    label: str
    candidate: Candidate | None
    same_mesh: bool
    same: bool
    """Whether it is the winner's very strategy (microbatches and loss chunk follow the workload and are not compared)."""


def shifts(request: SearchRequest, backends: tuple[str, ...], *, winner: Strategy) -> tuple[Shift, ...]:
    """The best strategy by the cost model at a quarter, half, twice and four times the length, memory and bandwidth."""
    ask = Ask(request, backends, request.devices or request.hardware.devices)
    found = []
    for varied in _varied(request):
        for [(quantity, asked)] in combinations((varied,)):
            here = applied(ask, ((quantity, asked),))
            value = link_bandwidth(here.request.hardware) if quantity.name == "bandwidth" else asked
            best = fastest_that_fits(here)
            mesh = best is not None and best.strategy.mesh == winner.mesh
            same = best is not None and mesh and _alike(best.strategy, winner)
            found.append(Shift(varied.quantity.name, value, _label(varied.quantity.name, value), best, mesh, same))
    return tuple(found)


def _alike(one: Strategy, other: Strategy) -> bool:
    if one.sampling is not None or other.sampling is not None:
        return one.sampling == other.sampling
    return one.remat == other.remat and (one.mesh.context == 1 or one.scheme == other.scheme)


def _varied(request: SearchRequest) -> Iterator[Varied]:
    seq, hbm = request.workload.seq_len, int(request.hardware.device.hbm_bytes.value)
    lengths = tuple(int(seq * factor) for factor in FACTORS if seq * factor == int(seq * factor) <= 2**40)
    yield Varied(QUANTITIES["seq"], lengths)
    yield Varied(QUANTITIES["hbm"], tuple(int(hbm * factor) for factor in FACTORS))
    yield Varied(QUANTITIES["bandwidth"], tuple(-factor for factor in FACTORS))


def _label(quantity: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    if quantity == "seq":
        return f"{format_tokens(int(value))} tokens"
    return format_bytes(value) if quantity == "hbm" else f"{value / 1e9:,.3g} GB/s"
