"""Kinds of prediction, under which the accuracy page sums up errors, and the facts by which predictions are alike.

Time of a step: by program (XLA or PyTorch) and regime, which is the largest obstacle: communication, the host, or the device's
own compute. Time of a single call of attention or of a product: by its length. Memory of a step: by program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cost_models.inputs.program import STEP
from cost_models.inputs.setting import Setting
from cost_models.parts.find import TIME
from cost_models.rates.published import rates_for, rates_name

Program = Literal["lcplan", "xla", "torch", "call"]
Regime = Literal["compute", "communication", "host", "short", "any"]

LARGE_SHARE = 0.15
"""Share of a step's time from which communication or the host makes a regime."""

SHORT_CALL_S = 0.01
"""A call over several ranks below this is short where a host launches every operation: its ring steps and exchanges take less
than their launches (usp-long-context-attention)."""

_SUBJECTS = {
    "lcplan": "lcplan's own train steps",
    "xla": "steps of XLA programs",
    "torch": "steps of PyTorch programs",
    "call": "single calls of attention and products",
}
_REGIMES = {
    "compute": ", mostly compute",
    "communication": f", with at least {LARGE_SHARE:.0%} exposed communication",
    "host": f", with at least {LARGE_SHARE:.0%} waits for the host",
    "short": f" over several ranks, launched by a host, below {SHORT_CALL_S * 1e3:.0f} ms",
    "any": "",
}


class Kind(NamedTuple):
    """One kind of prediction.

    Source: docs/accuracy.md, whose errors are by kind.
    """

    quantity: Literal["time", "memory"]
    program: Program
    regime: Regime

    @property
    def label(self) -> str:
        """The kind in words [no unit]."""
        return f"{self.quantity} of {_SUBJECTS[self.program]}{_REGIMES[self.regime]}"


@dataclass(frozen=True)
class PredictionFacts:
    """Facts by which predictions are alike: kind, device, share of each part, and the whole [s or bytes].

    ``rates`` names the device's entry in data/device_rates.json. Without ``whole`` all predictions of the kind are alike.

    Source: docs/accuracy.md.
    """

    kind: Kind
    rates: str
    parts: Mapping[str, float] = field(default_factory=dict)
    whole: float | None = None


LEAST_SHARE = 0.001
"""Smaller shares change no distance between predictions."""


def shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part of a whole; equal parts of an RL iteration's halves count together.

    Parameters
    ----------
    parts : Mapping
        Parts of a time or a memory [s or bytes].

    Returns
    -------
    dict
        Shares of at least 0.1 % [ratio].

    Notes
    -----
    Source: arithmetic.

    >>> shares({"gemm": 3.0, "attention": 1.0, "loss": 0.0})
    {'gemm': 0.75, 'attention': 0.25}
    """
    whole = sum(parts.values())
    found: dict[str, float] = {}
    for name, part in parts.items():
        key = name.removeprefix("train_").removeprefix("rollout_")
        found[key] = found.get(key, 0.0) + (part / whole if whole else 0.0)
    return {name: round(share, 3) for name, share in found.items() if share >= LEAST_SHARE}


@dataclass(frozen=True)
class RestsOn:
    """The program and the rates of an estimate, which decide the rows with which its errors are compared.

    ``own`` is whether it is lcplan's own train step; ``rates`` names the device's entry in data/device_rates.json;
    ``measured`` is whether the rate of its products was measured.

    Source: the setting.
    """

    program: Literal["xla", "torch"]
    own: bool
    rates: str
    measured: bool

    def time(self, time_s: Mapping[str, float]) -> PredictionFacts:
        """Return the facts of a step's time, from its parts [s]."""
        return PredictionFacts(self.time_kind(time_s), self.rates, shares(time_s), sum(time_s.values()))

    def memory(self, memory_bytes: Mapping[str, float]) -> PredictionFacts:
        """Return the facts of a step's memory, from its parts [bytes]; all memory of lcplan's own step is alike."""
        kind = self.memory_kind
        if kind.program == "lcplan":
            return PredictionFacts(kind, self.rates)
        return PredictionFacts(kind, self.rates, shares(memory_bytes), sum(memory_bytes.values()))

    def time_kind(self, time_s: Mapping[str, float]) -> Kind:
        """Return the kind of a step's time, by the shares of its parts [no unit]."""
        whole = sum(time_s.values())
        regimes: tuple[Regime, ...] = ("host", "communication")
        shares = {name: sum(s for key, s in time_s.items() if TIME[key].kind == name) / whole for name in regimes}
        found: Regime = next((name for name in regimes if shares[name] > LARGE_SHARE), "compute")
        return Kind("time", self.program, found)

    @property
    def memory_kind(self) -> Kind:
        """The kind of a step's memory [no unit]."""
        return Kind("memory", "lcplan" if self.own else self.program, "any")


def rests_on(setting: Setting) -> RestsOn:
    """Return the program and the rates that estimates of a setting rest on.

    Parameters
    ----------
    setting : Setting
        Model, machine, workload and program.

    Returns
    -------
    RestsOn
        Names [no unit].

    Notes
    -----
    Source: the setting.
    """
    program, hardware = setting.program, setting.hardware
    own = program == STEP and setting.workload.kind == "train"
    return RestsOn(program.runtime, own, rates_name(hardware), rates_for(setting).gemm.measured)


def call_kind(seconds: float, *, launched: bool) -> Kind:
    """Return the kind of a single call's time.

    Parameters
    ----------
    seconds : float
        Predicted time [s].
    launched : bool
        Whether it is over several context ranks, and a host launches every operation separately.

    Returns
    -------
    Kind
        Kind [no unit].

    Notes
    -----
    Source: ``SHORT_CALL_S``.
    """
    return Kind("time", "call", "short" if launched and seconds < SHORT_CALL_S else "any")
