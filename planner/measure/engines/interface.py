"""The interface of an engine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from lcplan.spec.hardware import HardwareSpec
from planner.measure.work import Work
from planner.measure.workers.pool import Outcome, PoolLimits


class Engine(Protocol):
    """Runs compiles and timings, here or on other machines."""

    def devices(self, hardware: HardwareSpec) -> int | None:
        """Return how many devices of the hardware's kind it can time on; None where only its workers know."""

    def outcomes(self, work: Sequence[Work], limits: PoolLimits) -> Generator[tuple[Work, Outcome]]:
        """Run work of one purpose and yield each outcome as it arrives; closing the generator withdraws the rest."""

    def close(self) -> None:
        """Release workers and connections."""
