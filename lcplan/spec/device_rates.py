"""DeviceRates: measured rates of a device. Where a machine's spec has them, the cost model uses no others."""

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
    """Achieved rates of one device while all devices of its domain work; absent rates are unknown.

    Attention rates are for heads of 128 features and count the work that the kernel does: masked scores count where they are
    computed.
    """

    attention_kernel: Literal["cudnn", "splash", "blockwise"] | None = None
    """The chunk kernel that attention's rates are of."""

    gemm_flop_per_s: Figure | None = None
    """Matrix products of a layer's shapes."""
    attention_forward_flop_per_s: Figure | None = None
    """Rate at long sequence lengths."""
    attention_backward_flop_per_s: Figure | None = None
    attention_forward_half_tokens: Figure | None = None
    """Mean keys a query at which the rate is half of that [tokens]."""
    attention_backward_half_tokens: Figure | None = None
    copy_bytes_per_s: Figure | None = None
    """Memory bandwidth of a copy, reads plus writes."""
    collectives: dict[Op, CallRate] = Field(default_factory=dict)
