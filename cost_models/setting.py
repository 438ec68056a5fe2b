"""Setting: what all candidates of one estimate share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lcplan.hardware import HardwareSpec
from lcplan.model import ModelSpec
from lcplan.workload import Workload

Kernel = Literal["cudnn", "splash", "blockwise"]

CUDNN_LARGEST_HEAD_DIM = 128
"""cuDNN frontend, scaled dot product attention, support matrix for training on every architecture."""


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
        """The attention kernel that the step runs inside a chunk on this hardware.

        cuDNN's takes half precision and head dims that are multiples of 8 up to 128; everything else runs blockwise JAX.
        """
        head_dim = self.model.head_dim
        fits = self.workload.precision == "bf16" and head_dim % 8 == 0 and head_dim <= CUDNN_LARGEST_HEAD_DIM
        return "cudnn" if self.hardware.kind == "gpu" and fits else "blockwise"
