"""Cost: device-hours, money and energy per billion tokens."""

from __future__ import annotations

from dataclasses import dataclass

from lcplan.spec.hardware import HardwareSpec
from planner.candidates.candidate import Candidate

TOKENS = 1e9
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Cost:
    """All a billion tokens. Money only with a price, energy only where the catalogue has the device's power.

    Energy is devices at their full rated power for the whole time: hosts, network and cooling are not in it.
    """

    device_hours: float
    price_usd: float | None
    energy_kwh: float | None
    idle_ratio: float = 0.0
    """Share of the devices that the job's domains have besides it: paid for, and without work."""

    @classmethod
    def of(cls, candidate: Candidate, hardware: HardwareSpec, price_usd_per_device_hour: float | None = None) -> Cost:
        """``devices / tokens_per_s`` device-seconds per token, on the candidate's best evidence; idle devices count too."""
        devices = candidate.strategy.devices + candidate.idle_devices
        hours = TOKENS * devices / candidate.best.tokens_per_s / 3600.0
        power = hardware.device.power_w
        return cls(
            device_hours=hours,
            price_usd=None if price_usd_per_device_hour is None else hours * price_usd_per_device_hour,
            energy_kwh=None if power is None else hours * 3600.0 * power.value / JOULES_PER_KWH,
            idle_ratio=candidate.idle_devices / devices,
        )

    def to_json(self) -> dict[str, float | None]:
        """Names with units, per billion tokens."""
        return {
            "device_hours_per_1b_tokens": self.device_hours,
            "usd_per_1b_tokens": self.price_usd,
            "device_kwh_per_1b_tokens": self.energy_kwh,
            "idle_ratio": self.idle_ratio,
        }

    @property
    def says(self) -> str:
        """One line for people."""
        parts = [f"{self.device_hours:,.4g} device-hours"]
        if self.price_usd is not None:
            parts.append(f"{self.price_usd:,.2f} USD")
        if self.energy_kwh is not None:
            parts.append(f"{self.energy_kwh:,.4g} kWh of the devices")
        idle = f" ({self.idle_ratio:.0%} of them idle)" if self.idle_ratio else ""
        return "1 B tokens: " + ", ".join(parts) + idle
