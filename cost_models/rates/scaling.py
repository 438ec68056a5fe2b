"""Rates that were measured on a device, scaled to one with another peak, bandwidth or power limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.rates.rate import Rate
from lcplan.spec.hardware import HardwareSpec

POWER_EXPONENT = 2.0 / 3.0
"""Exponent of clock over power at a device's power limit. Dynamic power is proportional to the clock times the square of the
voltage: 1 where the voltage is fixed, 1/3 where it follows the clock. This value is midway."""


def peak_ratio(hardware: HardwareSpec, entry: dict[str, Any]) -> float:
    """Return the peak of the machine's device over that of the device on which an entry's rates were measured.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine.
    entry : dict
        Entry of data/device_rates.json; its ``peak_flop_per_s`` is the measured device's.

    Returns
    -------
    float
        Ratio [no unit]; 1 without an entry.

    Notes
    -----
    Source: the kernels of one design reach the same share of a peak that differs by disabled units or clocks.
    """
    peak = hardware.device.peak_flop_per_s.value
    return float(peak / entry.get("peak_flop_per_s", peak))


def bandwidth_ratio(hardware: HardwareSpec, entry: dict[str, Any]) -> float:
    """Return the memory bandwidth of the machine's device over that of the device on which an entry's copy was measured.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine.
    entry : dict
        Entry of data/device_rates.json; ``nominal_bytes_per_s`` of its ``hbm`` is the measured device's.

    Returns
    -------
    float
        Ratio [no unit]; 1 without a measured copy.

    Notes
    -----
    Source: only the memory bounds a copy.
    """
    nominal = hardware.device.hbm_bytes_per_s.value
    return float(nominal / entry.get("hbm", {}).get("nominal_bytes_per_s", nominal))


def power_cap_ratio(hardware: HardwareSpec, measured_at_w: float) -> float:
    """Return the compute rate of a power-capped device as a share of its uncapped rate.

    ``(P / P0)^a`` below P0, else 1.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine; its device's ``power_w`` is P.
    measured_at_w : float
        P0, power at which the rate was measured [W]; 0 where that is unknown.

    Returns
    -------
    float
        Ratio [no unit].

    Notes
    -----
    Source: ``POWER_EXPONENT``. Memory and links keep their rates.
    """
    power = hardware.device.power_w
    if power is None or measured_at_w <= 0 or power.value >= measured_at_w:
        return 1.0
    return float((power.value / measured_at_w) ** POWER_EXPONENT)


def scaled(rate: Rate, share: float, *, why: str) -> Rate:
    """Return a rate times ``share``, which its source states; unchanged where the share is 1.

    Parameters
    ----------
    rate : Rate
        Rate of the measured device [FLOP/s or bytes/s].
    share : float
        Ratio [no unit].
    why : str
        Reason, for the source.

    Returns
    -------
    Rate
        Rate of this device [FLOP/s or bytes/s].

    Notes
    -----
    Source: the rate's own.
    """
    if share == 1.0:
        return rate
    return replace(rate, value=rate.value * share, source=f"{rate.source}; x {share:.2f} {why}")
