"""Rate: one achieved figure of a device, with its basis; Rates: all rates of a device that the time model reads."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.compute.kernels import head_dim_ratio


@dataclass(frozen=True)
class Rate:
    """A figure, its source, and whether it was measured on this kind of device."""

    value: float
    measured: bool
    source: str


@dataclass(frozen=True)
class CollectiveRate:
    """Time of a collective: ``latency_s + member_latency_s (n - 1) + moved bytes / oneway_bytes_per_s``."""

    latency_s: float
    member_latency_s: float
    oneway_bytes_per_s: float
    measured: bool
    source: str


@dataclass(frozen=True)
class Rates:
    """Achieved rates of one device in FLOP/s and bytes/s, and half lengths in tokens.

    Source: ``cost_models.rates.published`` and ``cost_models.rates.calibrated``; each rate names its source.
    """

    gemm: Rate
    attention_forward: Rate
    attention_backward: Rate
    forward_half_tokens: float
    backward_half_tokens: float
    hbm: Rate
    matrix_unit: float
    """Rows and columns of the device's matrix unit that a head must fill; 0 where heads of 64 fill it."""
    exponential_share: float
    """Cycles of a score's exponential over the cycles of its products with heads of 128."""
    collectives: dict[str, CollectiveRate]
    switch_all_reduce: CollectiveRate | None = None
    """All-reduces that the domain's switches sum (NVLink SHARP), where they were measured."""
    attention_kernel: str | None = None
    """The chunk kernel with which attention's rates were measured; None: a fused kernel."""
    wide_forward: float | None = None
    """Forward rate with heads of 256 over that with heads of 128, where both were measured."""
    wide_backward: float | None = None
    """The same ratio of the backward pass."""

    def head_ratio(self, head_dim: float, *, backward: bool) -> float:
        """Return attention's rate with heads of ``head_dim`` over its rate with heads of 128 [no unit].

        ``cost_models.compute.kernels.head_dim_ratio``, or, where heads of 128 and of 256 were measured, a line through the
        times of a score of both: ``(H / 128) / (1 + (H / 128 - 1) (2 / w - 1))``. A TPU's vectors have 128 elements: scores of
        smaller heads take as long as those of heads of 128.

        Parameters
        ----------
        head_dim : float
            H, features of a head.
        backward : bool
            The backward pass.

        Returns
        -------
        float
            Ratio [no unit].

        Notes
        -----
        Source: w are the ratios of data/device_rates.json.
        """
        wide = self.wide_backward if backward else self.wide_forward
        if wide is None:
            return head_dim_ratio(head_dim, self.matrix_unit, exponential_share=self.exponential_share)
        heads = head_dim / 128.0
        return heads / (1.0 + max(heads - 1.0, 0.0) * (2.0 / wide - 1.0))

    def bound_flop_per_s(self, peak: float) -> float:
        """Return the rate of computation that no step of this device exceeds, for MFU [FLOP per s].

        Parameters
        ----------
        peak : float
            Peak of the device's spec [FLOP/s]. A host's is measured on another host, and its own rates may exceed it.

        Returns
        -------
        float
            The largest of the peak and the rates [FLOP/s].

        Notes
        -----
        Source: the rates' own.
        """
        return max(peak, self.gemm.value, self.attention_forward.value, self.attention_backward.value)

    @property
    def basis(self) -> dict[str, str]:
        """``measured`` or ``fallback``, and the source, for each rate."""
        named: dict[str, Rate | CollectiveRate] = {
            "gemm": self.gemm,
            "attention_forward": self.attention_forward,
            "attention_backward": self.attention_backward,
            "hbm": self.hbm,
            **self.collectives,
        }
        return {name: f"{'measured' if rate.measured else 'fallback'}: {rate.source}" for name, rate in named.items()}
