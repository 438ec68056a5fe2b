"""Setting: what all candidates of one estimate share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cost_models.constants import Constants, published_constants
from cost_models.program import STEP, Program
from lcplan.hardware import HardwareSpec
from lcplan.model import ModelSpec
from lcplan.rollout import AnyWorkload

Kernel = Literal["cudnn", "splash", "blockwise", "unfused"]

SPLASH_LANES = 128
"""Head dims of jax's splash attention kernels come in multiples of a TPU's lanes."""
CUDNN_LARGEST_HEAD_DIM = 128
"""cuDNN frontend, scaled dot product attention, support matrix for training on every architecture."""


@dataclass(frozen=True)
class Setting:
    """Model, machine, workload and memory budget of one request.

    ``budget_bytes`` is what a device's allocator may hold [bytes]; ``program`` is whose step it is.
    """

    model: ModelSpec
    hardware: HardwareSpec
    workload: AnyWorkload
    budget_bytes: int
    program: Program = STEP
    constants: Constants = field(default_factory=published_constants)

    @property
    def kernel(self) -> Kernel:
        """The attention kernel that the step runs inside a chunk on this hardware.

        cuDNN's takes half precision and head dims that are multiples of 8 up to 128, splash on TPU half precision and
        multiples of 128; everything else runs blockwise JAX.
        Another trainer's fused kernel is priced as cuDNN's or splash.
        """
        if self.program.attention == "unfused":
            return "unfused"
        if self.program.attention == "flash":
            return "cudnn" if self.hardware.kind == "gpu" else "splash"
        head_dim, half_precision = self.model.head_dim, self.workload.precision == "bf16"
        if self.hardware.kind == "tpu" and half_precision and head_dim % SPLASH_LANES == 0:
            return "splash"
        fits = half_precision and head_dim % 8 == 0 and head_dim <= CUDNN_LARGEST_HEAD_DIM
        return "cudnn" if self.hardware.kind == "gpu" and fits else "blockwise"
