"""Ties: plans that the cost model cannot distinguish, and the choice among them.

Two plans of one request rest on the same rates, so their errors mostly cancel: a part that both have in the same length adds
nothing to their difference. The difference may be off by the half-width times the sum over parts of the seconds in which
the two differ. Two plans tie if their difference is below that, or below the noise of repeated runs.
A tie never gives up more than that noise at its largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import floor, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.parts.find import TIME
from lcplan.strategy import GPU_BACKENDS, Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.candidates.candidate import Candidate

NOISE_RATIO = 0.01
"""Repeated runs of one configuration differ by this: ``noise_ratio`` of magiattention-cp, the lowest of the published tables
(0.04 for nvidia-dgxc-llama31 and nvidia-dgxc-maxtext-paxml)."""

MOST_GIVEN_UP = 0.04
"""A tie never gives up more than this of the best cost: the highest ``noise_ratio`` of the published tables. Of a kind without
published rows the half-width exceeds the cost itself, by which every plan would tie."""

PLAIN_BACKENDS = frozenset({"nccl", "rccl", "ici", "host"})
"""Backends that need no flag."""

SWITCHES: Mapping[str, str] = {
    "bidirectional": "off",
    "sharding_mode": "manual",
    "scheduler": "default",
    "collective_matmul": "off",
}
"""Knobs that set flags or exchange a program for a rarer one, with their plain values."""

Column = NDArray[np.float64]


def tied(parts: Mapping[str, Column], leader: Mapping[str, float], ratio: float) -> NDArray[np.bool_]:
    """Whether each plan ties with the leader, shape ``[n]``.

    Parameters
    ----------
    parts
        Cost of each part, shape ``[n]``, in the objective's unit (seconds, or device-seconds).
    leader
        The same parts of the best plan.
    ratio
        Half-width of a cost.
    """
    zero: Any = 0.0
    whole = sum(leader.values())
    difference = reduce(np.add, (parts[key] - leader[key] for key in leader), zero)
    apart = reduce(np.add, (np.abs(parts[key] - leader[key]) for key in leader), zero)
    return np.asarray(difference <= np.clip(ratio * apart, NOISE_RATIO * whole, MOST_GIVEN_UP * whole))


def switches(strategy: Strategy) -> int:
    """Flags and rarer programs that a strategy needs, which count against it in a tie."""
    changed = sum(getattr(strategy, name) != plain for name, plain in SWITCHES.items())
    offloads = bool(REMAT_POLICIES[strategy.remat].offloaded)
    return changed + (strategy.backend not in PLAIN_BACKENDS) + offloads


def preference(*, devices: int, memory: float, least: float, step: float, changed: int) -> tuple[int, int, int]:
    """The order within a tie: fewer devices, then less memory in steps of ``step``, then fewer switches."""
    return devices, floor(log(max(memory / least, 1.0)) / log(1.0 + step) + 1e-9), changed


@dataclass(frozen=True)
class Choice:
    """Candidates in order, and the candidates that tie with the first."""

    ordered: tuple[Candidate, ...]
    ties: tuple[Candidate, ...] = ()
    """Candidates that tie with the first one, which is not among them; the fastest first."""


def settle(ordered: Sequence[Candidate], *, per_device: bool) -> Choice:
    """Put the preferred one of the plans that tie with the first in front; ``ordered`` are best first and all of one tier."""
    if not ordered:
        return Choice(())
    leader = ordered[0]
    alike = [one for one in ordered if _tie(one, leader, per_device=per_device)]
    least = min(_need(one) for one in alike)
    step = max(leader.best.memory_ratio, NOISE_RATIO)
    settled = sorted(
        alike,
        key=lambda one: preference(
            devices=one.strategy.devices, memory=_need(one), least=least, step=step, changed=switches(one.strategy)
        ),
    )
    rest = [one for one in ordered if one is not settled[0]]
    return Choice((settled[0], *rest), tuple(one for one in alike if one is not settled[0]))


def _need(candidate: Candidate) -> float:
    return float(max(candidate.best.memory_bytes, 1))


def _tie(candidate: Candidate, leader: Candidate, *, per_device: bool) -> bool:
    if (candidate.timed is None) != (leader.timed is None):
        return False
    best, other = leader.best, candidate.best
    weights = [one.strategy.devices if per_device else 1 for one in (candidate, leader)]
    if leader.timed is not None:
        spread = max(NOISE_RATIO, best.time_ratio, other.time_ratio)
        return weights[0] * other.step_s <= weights[1] * best.step_s * (1.0 + spread)
    mine, its = (cost_parts(one, weight) for one, weight in zip((candidate, leader), weights, strict=True))
    whole = {key: np.array([mine.get(key, 0.0)]) for key in its}
    return bool(tied(whole, its, best.time_ratio)[0])


def cost_parts(candidate: Candidate, weight: float = 1.0) -> dict[str, float]:
    """Parts of the candidate's time with the scales learnt from compiles and timings, times ``weight``."""
    learnt = candidate.learnt
    scales = {
        "communication": 1.0 if learnt is None else learnt.communication_as_compiled * learnt.communication_scale,
        "compute": 1.0 if learnt is None else learnt.computation_scale,
    }
    return {
        key: weight * seconds * scales["communication" if key in TIME and TIME[key].kind == "communication" else "compute"]
        for key, seconds in candidate.estimate.get("time_s", {"step": candidate.estimate["step_s"]}).items()
    }


assert set(GPU_BACKENDS) - PLAIN_BACKENDS == {"nvshmem", "symmetric"}
