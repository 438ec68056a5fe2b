"""Time of one operation of an executable: the formulas and rates of the cost model's own step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.collectives.call_cost import CallCost
from cost_models.collectives.group_span import Span
from cost_models.collectives.network import call_cost
from cost_models.compute.host_time import shares_cores
from cost_models.compute.kernels import attention_seconds, gemm_seconds, head_dim_ratio, memory_seconds
from cost_models.rates.published import KERNEL_FLOOR_S, Rates
from lcplan.evidence.execution import Kernel, Message
from lcplan.spec.hardware import HardwareSpec

WIDER = {"f32": 2.0, "s32": 2.0, "u32": 2.0, "f64": 16.0, "c64": 8.0, "f8e4m3fn": 0.5, "f8e5m2": 0.5, "s8": 0.5}
"""Time of a product over that with bf16 operands on a GPU: tensor cores multiply fp32 operands as TF32, at half the rate of
bf16, and fp8 at twice (NVIDIA H100 datasheet: 494, 989 and 1,979 TFLOP/s); fp64 at 67."""

TPU_PASSES = {"f32": 1.0}
"""A TPU multiplies fp32 operands in one bf16 pass at jax's default precision (docs.jax.dev, jax.lax.Precision)."""


@dataclass(frozen=True)
class OperationCost:
    """Costs of operations on one machine. ``devices`` are those of the job.

    Source: ``cost_models.compute.kernels`` and ``cost_models.collectives.network``.
    """

    hardware: HardwareSpec
    rates: Rates
    devices: int

    @property
    def overlaps(self) -> bool:
        """Whether a collective runs during a device's own work; not where it takes the cores that the work needs."""
        return not shares_cores(self.hardware)

    def kernel_seconds(self, kernel: Kernel) -> float:
        """Return the time of all calls of a kernel [s]."""
        return kernel.calls * self._share * self._one(kernel)

    def message_seconds(self, message: Message) -> float:
        """Return the time of one collective [s]."""
        op = {"ragged-all-to-all": "all-to-all", "broadcast": "all-gather"}.get(message.op, message.op)
        members = np.array([float(message.members)])
        rail = np.array([message.crosses > 1 and message.stride >= 1 and message.inner * message.crosses == message.members])
        span = Span(
            members,
            np.array([float(message.stride)]),
            np.array([float(message.inner)]),
            np.array([float(message.crosses)]),
            rail,
        )
        cost: CallCost = call_cost(op, span, hardware=self.hardware, rates=self.rates)
        return float(cost.seconds(np.array([float(message.bytes)]))[0])

    @property
    def _share(self) -> float:
        """Slow-down of one device: a CPU's devices share its cores, and its spec gives each an equal share of them."""
        return self.devices / self.hardware.domain_size if self.hardware.kind == "cpu" else 1.0

    def _one(self, kernel: Kernel) -> float:
        size = np.array([kernel.bytes])
        if kernel.kind == "host":
            link = self.hardware.device.host_oneway_bytes_per_s
            return kernel.bytes / link.value if link is not None else 0.0
        if kernel.kind == "memory":
            floor = KERNEL_FLOOR_S if self.hardware.kind == "gpu" else 0.0
            return float(memory_seconds(size, 1.0, hbm_bytes_per_s=self.rates.hbm.value, floor_s=floor)[0])
        if kernel.kind == "attention":
            return self._attention(kernel)
        wider = WIDER.get(kernel.dtype, 1.0) if self.hardware.kind == "gpu" else TPU_PASSES.get(kernel.dtype, 1.0)
        flop = np.array([kernel.flop * wider])
        return float(gemm_seconds(flop, size, flop_per_s=self.rates.gemm.value, hbm_bytes_per_s=self.rates.hbm.value)[0])

    def _attention(self, kernel: Kernel) -> float:
        rates, back = self.rates, kernel.backward
        rate = rates.attention_backward if back else rates.attention_forward
        ratio = head_dim_ratio(kernel.head_dim, rates.matrix_unit, exponential_share=rates.exponential_share)
        seconds = attention_seconds(
            np.array([kernel.flop]),
            np.array([max(kernel.keys, 1.0)]),
            flop_per_s=rate.value * ratio,
            half_tokens=rates.backward_half_tokens if back else rates.forward_half_tokens,
        )
        return float(seconds[0])
