"""A machine's own measured rates in place of published ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.rates.rate import CollectiveRate, Rate, Rates
from lcplan.spec.device_rates import CallRate, DeviceRates
from lcplan.spec.figure import Figure

_RATES = {
    "gemm": "gemm_flop_per_s",
    "attention_forward": "attention_forward_flop_per_s",
    "attention_backward": "attention_backward_flop_per_s",
    "hbm": "copy_bytes_per_s",
}
_HALVES = {
    "forward_half_tokens": "attention_forward_half_tokens",
    "backward_half_tokens": "attention_backward_half_tokens",
}


def calibrated(published: Rates, own: DeviceRates | None) -> Rates:
    """Return ``published`` with every rate of the machine's spec in its place.

    Parameters
    ----------
    published : Rates
        Rates of the kind of device [FLOP/s, bytes/s, s].
    own : DeviceRates or None
        Rates measured on this machine [FLOP/s, bytes/s, s]; None: no rates were measured.

    Returns
    -------
    Rates
        Rates [FLOP/s, bytes/s, s], each with its basis.

    Notes
    -----
    Source: the spec's figures, which give their sources (``lcplan calibrate`` writes them).
    """
    if own is None:
        return published
    changes: dict[str, Any] = {
        name: _rate(figure) for name, field in _RATES.items() if (figure := getattr(own, field)) is not None
    }
    changes |= {name: figure.value for name, field in _HALVES.items() if (figure := getattr(own, field)) is not None}
    calls = {op: _call(rate) for op, rate in own.collectives.items() if op in published.collectives}
    return replace(published, **changes, collectives=published.collectives | calls, attention_kernel=own.attention_kernel)


def _rate(figure: Figure) -> Rate:
    return Rate(figure.value, figure.kind == "measured", figure.source)


def _call(rate: CallRate) -> CollectiveRate:
    bandwidth = rate.oneway_bytes_per_s
    measured = bandwidth.kind == "measured"
    return CollectiveRate(rate.latency_s.value, rate.member_latency_s.value, bandwidth.value, measured, bandwidth.source)
