"""Setting: what all candidates of one estimate share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cost_models.inputs.constants import Constants, published_constants
from cost_models.inputs.program import STEP, Program
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import AnyWorkload

Kernel = Literal["cudnn", "splash", "blockwise", "unfused"]

SPLASH_LANES = 128
"""Head dims of jax's splash attention kernels come in multiples of a TPU's lanes."""
CUDNN_LARGEST_HEAD_DIM = 128
"""cuDNN frontend, scaled dot product attention, support matrix for training on every architecture."""

CUDNN_UNLIKE_HEADS_CAPABILITY, CUDNN_LARGEST_UNLIKE_HEAD_DIM = (9, 0), 192
"""Keys and values with heads of unlike size take cuDNN 9.10 and compute capability 9.0 (jax 0.10.1,
_src/cudnn/fused_attention_stablehlo.py); DeepSeek's 192 and 128 are what that case is for."""


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
        if self.model.latent is not None:
            return self._latent_kernel
        head_dim, half_precision = self.model.head_dim, self.workload.precision == "bf16"
        if self.hardware.kind == "tpu" and half_precision and head_dim % SPLASH_LANES == 0:
            return "splash"
        fits = half_precision and head_dim % 8 == 0 and head_dim <= CUDNN_LARGEST_HEAD_DIM
        return "cudnn" if self.hardware.kind == "gpu" and fits else "blockwise"

    @property
    def _latent_kernel(self) -> Kernel:
        """That of latent attention, whose keys have more features than its values: from Hopper on cuDNN's takes both."""
        gpu, dims = self.hardware.device.gpu, (self.model.key_dim, self.model.value_dim)
        hopper = gpu is not None and gpu.compute_capability >= CUDNN_UNLIKE_HEADS_CAPABILITY
        fits = all(dim % 8 == 0 and dim <= CUDNN_LARGEST_UNLIKE_HEAD_DIM for dim in dims)
        return "cudnn" if hopper and fits and self.workload.precision == "bf16" else "blockwise"
