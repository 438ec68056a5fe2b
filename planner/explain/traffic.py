"""Traffic: every collective of a strategy's step with its time, the link it runs over, and how much of it is hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.collectives.group_span import Span
from cost_models.collectives.network import Network
from cost_models.collectives.step import assigned_backend, axis_label, terms_of
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.parts.time import STEP_TIME, part_with_purpose
from cost_models.rates.published import rates_of
from planner.candidates.candidate import Candidate


@dataclass(frozen=True)
class Transfer:
    """One kind of collective of a step. ``transfer_s`` is all of its time [s per step], hidden or not."""

    part: str
    op: str
    axis: str
    purpose: str
    backend: str
    calls: int
    bytes: int
    transfer_s: float
    link: str

    @property
    def total_bytes(self) -> int:
        """Bytes per step of one device."""
        return self.calls * self.bytes


@dataclass(frozen=True)
class Exposure:
    """Communication of one time part: all transfers, their exposed time, and the time hidden by compute [s per step]."""

    part: str
    transfer_s: float
    exposed_s: float

    @property
    def hidden_s(self) -> float:
        """Transfer time that compute covers."""
        return max(0.0, self.transfer_s - self.exposed_s)


def transfers(setting: Setting, candidate: Candidate) -> tuple[Transfer, ...]:
    """Every collective of the candidate's step by the cost model, most time first."""
    strategy = candidate.strategy
    if strategy.sampling is not None:
        return ()
    layout = Layout(setting, StrategyTable.from_strategies([strategy]))
    network = Network.of(layout, rates_of(setting.hardware))
    found = []
    for term in terms_of(layout):
        calls = round(float(term.calls[0]))
        if not calls:
            continue
        size = round(float(np.asarray(term.bytes)[0]))
        found.append(
            Transfer(
                part=part_with_purpose(term.purpose).key,
                op=term.op,
                axis=axis_label(strategy, term),
                purpose=term.purpose,
                backend=assigned_backend(strategy.backend, op=term.op, size_bytes=size),
                calls=calls,
                bytes=size,
                transfer_s=calls * float(np.asarray(network.seconds(term))[0]),
                link=_link(layout, network.span(term)),
            )
        )
    return tuple(sorted(found, key=lambda transfer: -transfer.transfer_s))


def _link(layout: Layout, span: Span) -> str:
    hardware = layout.setting.hardware
    crosses = float(np.asarray(span.crosses)[0]) > 1
    return hardware.network_link.name if crosses and hardware.network_link is not None else hardware.domain_link.name


def exposures(candidate: Candidate, moved: tuple[Transfer, ...]) -> tuple[Exposure, ...]:
    """Exposed time and all transfers of each communication part."""
    times = candidate.estimate["time_s"]
    return tuple(
        Exposure(key, sum(transfer.transfer_s for transfer in moved if transfer.part == key), times.get(key, 0.0))
        for key in (part.key for part in STEP_TIME if part.purposes)
    )
