"""Setting: the inputs that all candidates of one estimate share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cost_models.inputs.constants import Constants, published_constants
from cost_models.inputs.program import STEP, Program
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import AnyWorkload
from lcplan.strategy.attention_kernel import AttentionKernel, attention_kernel, shortest_chunk

Kernel = Literal[AttentionKernel, "unfused"]


@dataclass(frozen=True)
class Setting:
    """Model, machine, workload and memory budget of one request.

    ``budget_bytes`` is the memory that a device's allocator may hold [bytes]; ``program`` is the trainer's program.

    Source: the request.
    """

    model: ModelSpec
    hardware: HardwareSpec
    workload: AnyWorkload
    budget_bytes: int
    program: Program = STEP
    constants: Constants = field(default_factory=published_constants)

    untimed_offload: bool = False
    """Whether strategies that offload are priced without the time of their transfers where the host link is unknown: the
    request names only such strategies, so that all candidates lack the same part of the time."""

    shortest_chunk: int | None = None
    """Shortest length on which the attention kernel runs [tokens]; None: that of a rank that holds whole sequences."""

    @property
    def kernel(self) -> Kernel:
        """The attention kernel inside a chunk on this hardware.

        The fused kernels of other trainers' programs are priced as cuDNN's kernel or splash attention, also for heads that
        these do not take: FlashAttention takes heads up to 256 (github Dao-AILab/flash-attention), MaxText's splash any.
        """
        if self.program.attention == "unfused":
            return "unfused"
        if self.program.attention != "step":
            return "cudnn" if self.hardware.kind == "gpu" else "splash"
        gpu, length = self.hardware.device.gpu, self.workload.seq_len
        return attention_kernel(
            self.model,
            kind=self.hardware.kind,
            precision=self.workload.precision,
            shortest_chunk=shortest_chunk(length, 1) if self.shortest_chunk is None else self.shortest_chunk,
            capability=None if gpu is None else gpu.compute_capability,
            fused=self.hardware.fused_attention,
        )
