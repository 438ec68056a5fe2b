"""Time of one step by part: kernels of the slowest rank, plus the communication that nothing hides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.attention import RingSteps, exposed_hop_seconds, ring_steps
from cost_models.collectives import Term, terms_of
from cost_models.contention import by_nccl, hop_contention_seconds, tensor_contention_seconds
from cost_models.flops import recomputed_matrix_parameters, recomputes_attention
from cost_models.host import host_wait_seconds
from cost_models.kernels import gemm_seconds, memory_seconds
from cost_models.layout import Floats, Layout
from cost_models.network import Network
from cost_models.overlap import behind_backward_seconds
from cost_models.rates import KERNEL_FLOOR_S, Rates

TIME_PARTS: tuple[str, ...] = (
    "gemm",
    "attention",
    "hbm",
    "recompute",
    "loss",
    "optimizer",
    "comm_fsdp",
    "comm_tensor",
    "comm_context",
    "comm_data",
    "contention",
    "overhead",
)

FORWARD_STREAM_PASSES = 9.0
"""Reads and writes of the residual stream in one layer's forward pass: norm r w, residual and norm r r w w, residual r r w."""

BACKWARD_STREAM_PASSES = 15.0
"""The same of its backward pass: each norm reads input, cotangent and residual cotangent and writes one (x2 for the two
norms), cotangent sums r r w; counted from docs/step.md's layer."""

FORWARD_KERNELS = 10.0
"""Memory-bound kernels of a layer's forward pass after fusion: two norms, two residuals, RoPE of query and key, gate, casts of
the weights."""


@dataclass(frozen=True)
class StepTime:
    """Time parts of each candidate; every property is a column of shape ``[n]`` in seconds a step."""

    layout: Layout
    rates: Rates

    @cached_property
    def _passes(self) -> Floats:
        """Layer passes of a step: L M."""
        return self.layout.setting.model.layers * self.layout.microbatches

    @cached_property
    def _share(self) -> Floats | float:
        """Slow-down of one device: a host's devices share its cores, and its spec gives each an equal part of them."""
        hardware = self.layout.setting.hardware
        return self.layout.devices / hardware.domain_size if hardware.kind == "cpu" else 1.0

    def _gemm(self, parameters: Floats | float, products: float) -> Floats:
        """``products`` products of one microbatch's tokens with matrices of ``parameters`` elements (whole width)."""
        layout = self.layout
        local = parameters / layout.tensor
        flop = products * 2.0 * layout.tokens * local
        traffic = products * layout.activation_bytes * local
        seconds = gemm_seconds(flop, traffic, flop_per_s=self.rates.gemm.value, hbm_bytes_per_s=self.rates.hbm.value)
        return seconds * self._share

    def _memory(self, traffic_bytes: Floats, kernels: float) -> Floats:
        seconds = memory_seconds(traffic_bytes, kernels, hbm_bytes_per_s=self.rates.hbm.value, floor_s=self._floor)
        return seconds * self._share

    @property
    def _floor(self) -> float:
        return KERNEL_FLOOR_S if self.layout.setting.hardware.kind == "gpu" else 0.0

    @cached_property
    def _layer_forward_gemm(self) -> Floats:
        return self._gemm(float(self.layout.setting.model.layer_matrix_parameters), 1.0)

    @cached_property
    def _layer_backward_gemm(self) -> Floats:
        return self._gemm(float(self.layout.setting.model.layer_matrix_parameters), 2.0)

    @cached_property
    def _layer_again_gemm(self) -> Floats:
        return self._gemm(recomputed_matrix_parameters(self.layout), 1.0)

    @cached_property
    def _forward_attention(self) -> RingSteps:
        return self._ring(backward=False)

    @cached_property
    def _backward_attention(self) -> RingSteps:
        return self._ring(backward=True)

    def _ring(self, *, backward: bool) -> RingSteps:
        steps = ring_steps(self.layout, self.rates, backward=backward)
        return RingSteps(steps.first_s * self._share, steps.later_s * self._share, steps.later)

    def _layer_memory(self, stream_passes: float, width_passes: float) -> Floats:
        """Memory-bound work of a layer: passes over the residual stream and over query, key and feed-forward widths."""
        layout = self.layout
        stream = stream_passes * layout.stream_tokens * layout.setting.model.d_model
        widths = width_passes * layout.tokens * (layout.query_width + layout.kv_width + 1.5 * layout.ff_width)
        merges = 6.0 * self._forward_attention.later * layout.tokens * layout.query_width
        return self._memory(layout.activation_bytes * (stream + widths + merges), FORWARD_KERNELS)

    @cached_property
    def _layer_forward_memory(self) -> Floats:
        return self._layer_memory(FORWARD_STREAM_PASSES, 2.0)

    @cached_property
    def _layer_backward_memory(self) -> Floats:
        return self._layer_memory(BACKWARD_STREAM_PASSES, 4.0)

    @property
    def layer_forward(self) -> Floats:
        """One layer of one microbatch forward, collectives apart."""
        return self._layer_forward_gemm + self._forward_attention.total_s + self._layer_forward_memory

    @property
    def layer_backward(self) -> Floats:
        """One layer of one microbatch backward, with what is repeated before it, collectives apart."""
        again = self._layer_again_gemm + self._forward_attention.total_s * recomputes_attention(self.layout)
        repeated = np.where(self._repeats, again + self._layer_forward_memory, 0.0)
        return repeated + self._layer_backward_gemm + self._backward_attention.total_s + self._layer_backward_memory

    @cached_property
    def gemm(self) -> Floats:
        """Matrix products of the layers, forward and backward."""
        return self._passes * (self._layer_forward_gemm + self._layer_backward_gemm)

    @cached_property
    def attention(self) -> Floats:
        """Attention kernels, forward and backward, on the slowest rank."""
        return self._passes * (self._forward_attention.total_s + self._backward_attention.total_s)

    @cached_property
    def hbm(self) -> Floats:
        """Norms, RoPE, residuals, gates, merges of ring steps: forward and backward."""
        return self._passes * (self._layer_forward_memory + self._layer_backward_memory)

    @cached_property
    def _repeats(self) -> Floats:
        """1 where the backward pass repeats anything of a layer beyond norms and activations of what is kept."""
        return 1.0 - 1.0 * (recomputed_matrix_parameters(self.layout) == 0) * ~recomputes_attention(self.layout)

    @cached_property
    def recompute(self) -> Floats:
        """What rematerialisation repeats: products, attention, memory-bound work."""
        attention = self._forward_attention.total_s * recomputes_attention(self.layout)
        return self._passes * (self._layer_again_gemm + attention + self._layer_forward_memory * self._repeats)

    @cached_property
    def loss(self) -> Floats:
        """Head and softmax: a chunk's logits, and while they are there their gradient and its two products."""
        layout = self.layout
        model = layout.setting.model
        products = self._gemm(float(model.vocab * model.d_model), layout.setting.program.loss_products)
        logits = 4.0 * layout.tokens * layout.vocab_width
        return layout.microbatches * (products + self._memory(6.0 * logits, 1.0))

    @cached_property
    def optimizer(self) -> Floats:
        """AdamW over a device's shard, and the sums of gradients over microbatches."""
        layout = self.layout
        elements = layout.setting.model.parameters / layout.state_shards
        update = elements / layout.optimizer_shards * (8.0 + 4.0 + 4.0 + 4.0 * layout.moment_bytes)
        sums = 12.0 * elements * np.where(layout.microbatches > 1, layout.microbatches, 0.0)
        return self._memory(update + sums, 1.0)

    @cached_property
    def terms_with_seconds(self) -> list[tuple[Term, Floats]]:
        """Collectives that some row has, with the time of one call."""
        network = Network(self.layout, self.rates)
        return [(term, network.seconds(term)) for term in terms_of(self.layout) if np.any(term.calls > 0)]

    def _of(self, *purposes: str) -> Floats:
        """All of a step's time in the collectives of these purposes, nothing hidden."""
        total = np.zeros(len(self.layout.table))
        for term, seconds in self.terms_with_seconds:
            if term.purpose in purposes:
                total = total + term.calls * seconds
        return total

    @cached_property
    def comm_fsdp(self) -> Floats:
        """Weights: what the products of a layer do not hide, and the first matrix, which nothing hides; tables in full."""
        model = self.layout.setting.model
        first = model.d_model * model.head_dim * model.heads / model.layer_matrix_parameters
        total = self._of("tables")
        forward = self._layer_forward_gemm + self._layer_forward_memory
        windows = {"all-gather": forward, "reduce-scatter": self._layer_backward_gemm}
        for term, seconds in self.terms_with_seconds:
            if term.purpose in {"weights", "key-value-weights"}:
                exposed = first * seconds + np.maximum((1 - first) * seconds - windows[term.op], 0.0)
                total = total + term.calls * exposed
        return total

    @cached_property
    def comm_tensor(self) -> Floats:
        """The residual stream's gathers and scatters and the loss's: written out before and after products, so exposed.

        Beside the products that they feed, what those do not hide is left, and the first and last chunk of each.
        """
        exposed = self._of("loss", "loss-maximum", "loss-sums")
        stream = self._of("stream")
        if self.layout.setting.program.stream == "beside-products":
            again = np.where(self._repeats > 0, self._layer_again_gemm, 0.0)
            products = self._passes * (self._layer_forward_gemm + self._layer_backward_gemm + again)
            stream = np.where(stream > 0, np.maximum(stream - products, stream / self.layout.tensor), 0.0)
        return exposed + stream

    @cached_property
    def comm_context(self) -> Floats:
        """Ring hops beyond the kernel beside them; gathers and all-to-alls of the other schemes in full."""
        total = self._of("kv-gather", "ulysses-query", "ulysses-key-value")
        for term, hop in self.terms_with_seconds:
            if term.purpose == "kv-ring":
                total = total + self._hops(term, hop)
            elif term.purpose == "kv-gradients":
                beside = self._backward_attention.later_s if term.op == "collective-permute" else 0.0
                total = total + term.calls * exposed_hop_seconds(beside + np.zeros_like(hop), hop)
        return total

    def _hops(self, term: Term, hop: Floats) -> Floats:
        hops = self._passes * self._forward_attention.later
        backward = hops * exposed_hop_seconds(self._backward_attention.later_s, hop)
        return (term.calls - hops) * exposed_hop_seconds(self._forward_attention.later_s, hop) + backward

    @cached_property
    def comm_data(self) -> Floats:
        """Once a step: gradients over data, vectors and scalars over every axis."""
        gradients = self._of("gradients")
        if self.layout.setting.program.data_gradients == "behind-backward":
            layers = float(self.layout.setting.model.layers)
            gradients = behind_backward_seconds(gradients, layers * self.layer_backward, layers=layers)
        return gradients + self._of("vectors", "scalars")

    @cached_property
    def contention(self) -> Floats:
        """What NCCL's permutes take from the attention kernels beside them."""
        if not np.any(by_nccl(self.layout)):
            return np.zeros(len(self.layout.table))
        forward, backward = self._forward_attention, self._backward_attention
        passes = 1.0 + recomputes_attention(self.layout)
        lost = passes * tensor_contention_seconds(self.layout, forward) + tensor_contention_seconds(self.layout, backward)
        total = self._passes * lost
        for term, hop in self.terms_with_seconds:
            if term.purpose == "kv-ring" or (term.purpose == "kv-gradients" and term.op == "collective-permute"):
                total = total + term.calls * hop_contention_seconds(self.layout, hop, forward.later_s)
        return total

    @cached_property
    def overhead(self) -> Floats:
        """Kernels of the ring that cannot start before the last ended: one least kernel time a ring step and pass."""
        again = recomputes_attention(self.layout)
        ring = self._floor * self._passes * (self._forward_attention.later + 1.0) * (2.0 + again)
        return ring + self._host_wait if self.layout.setting.program.dispatch == "eager" else ring

    @property
    def _host_wait(self) -> Floats:
        """Waiting for an eager host, where the device's work of a layer is shorter than its launches."""
        device = self.layer_forward + self.layer_backward + self._of("stream") / self._passes
        seconds = self.layout.setting.constants.eager_layer_host_s
        return self._passes * host_wait_seconds(device, self._repeats, forward_host_s=seconds)

    def parts(self) -> dict[str, Floats]:
        """Seconds a step by ``TIME_PARTS``; the step is their sum."""
        return {name: getattr(self, name) for name in TIME_PARTS}
