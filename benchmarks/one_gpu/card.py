"""Card: which accelerator answers, by its driver's name, and what of the catalogue it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lcplan import catalog
from lcplan.spec.hardware import HardwareSpec


@dataclass(frozen=True)
class Card:
    """One device, and how it is asked."""

    device: str
    hardware: str
    jax: str
    platform: str
    """As jax names it: ``gpu`` or ``cpu``."""
    tiny: bool = False
    """Shapes that a host device can hold."""

    @property
    def spec(self) -> HardwareSpec:
        """The catalogue's entry: the device, and the node that it would be one of."""
        return catalog.hardware(self.hardware)

    def to_json(self) -> dict[str, Any]:
        """Fields by name."""
        return asdict(self)


def look(*, tiny: bool) -> Card:
    """The device that jax gives this process first."""
    import jax

    from planner.calibrate.run import entry_of

    first = jax.devices()[0]
    entry = entry_of({"platform": first.platform, "kind": first.device_kind})
    return Card(first.device_kind, entry.name, jax.__version__, first.platform, tiny)
