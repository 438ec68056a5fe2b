"""Setting: what all candidates of one estimate share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lcplan.hardware import HardwareSpec
from lcplan.model import ModelSpec
from lcplan.workload import Workload

Kernel = Literal["cudnn", "splash", "blockwise"]


@dataclass(frozen=True)
class Setting:
    """Model, machine, workload and memory budget of one request.

    ``budget_bytes`` is what a device's allocator may hold [bytes].
    """

    model: ModelSpec
    hardware: HardwareSpec
    workload: Workload
    budget_bytes: int

    @property
    def kernel(self) -> Kernel:
        """The attention kernel that the step runs inside a chunk on this kind of hardware."""
        return "cudnn" if self.hardware.kind == "gpu" else "blockwise"
