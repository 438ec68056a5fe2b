"""DeviceRates: what a device was measured to achieve. Where a machine's spec has them, the laws use nothing else."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lcplan.spec.collective import Op
from lcplan.spec.figure import Figure, Rated


class CallRate(Rated):
    """Time of one call of a collective: ``latency_s + member_latency_s (n - 1) + moved bytes / oneway_bytes_per_s``."""

    latency_s: Figure
    member_latency_s: Figure
    oneway_bytes_per_s: Figure


class DeviceRates(Rated):
    """Achieved rates of one device, all devices of its domain at work; those that are absent are not known.

    Attention's are for heads of 128 features, and of the work that the kernel does: what a causal mask hides counts where it is
    computed all the same.
    """

    attention_kernel: Literal["cudnn", "splash", "blockwise"] | None = None
    """The chunk kernel that attention's rates are of."""

    gemm_flop_per_s: Figure | None = None
    """Matrix products of a layer's shapes."""
    attention_forward_flop_per_s: Figure | None = None
    """At long length."""
    attention_backward_flop_per_s: Figure | None = None
    attention_forward_half_tokens: Figure | None = None
    """Mean keys a query at which the rate is half of that [tokens]."""
    attention_backward_half_tokens: Figure | None = None
    copy_bytes_per_s: Figure | None = None
    """Memory bandwidth of a copy, reads plus writes."""
    collectives: dict[Op, CallRate] = Field(default_factory=dict)
