"""A device's own work in one step: products, attention, memory-bound operations, loss, optimizer, repetition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.attention.work import RingSteps, merge_bytes, ring_steps
from cost_models.compute.flops import recomputed_matrix_parameters, recomputes_attention
from cost_models.compute.kernels import gemm_seconds, memory_seconds
from cost_models.experts.buffers import ExpertLayout
from cost_models.experts.work import (
    expert_copy_bytes,
    expert_product_seconds,
    one_hot_seconds,
    row_move_seconds,
)
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.stages import Stages, dealt, layer_passes
from cost_models.inputs.state_place import optimizer_shards
from cost_models.memory.saved_tensors import on_device_bytes
from cost_models.rates.published import KERNEL_FLOOR_S, Rates

FORWARD_STREAM_PASSES = 9.0
"""Reads (r) and writes (w) of the residual stream in a layer's forward pass: norm r w, residual and norm r r w w, residual
r r w."""

BACKWARD_STREAM_PASSES = 15.0
"""Reads and writes of the residual stream in a layer's backward pass: each of two norms reads input, cotangent and residual
cotangent and writes one; cotangent sums r r w; counted from docs/step.md's layer."""

STACK_PASSES = 4.0
"""Reads and writes of a tensor that is kept for the backward pass: XLA's CPU executables have a separate slice update and slice
for each, r w both (llama-tiny, 8 devices, jax 0.10.1). On other devices they would take a few thousandths of the README's step
and are ignored."""

POST_NORM_PASSES = {"forward": 4.0, "backward": 6.0}
"""Reads and writes of the two norms of a layer's additions to the stream: forward r w each; backward each reads input and
cotangent and writes one."""

EAGER_OF_FUSED = 3.5
"""Traffic of separate element-wise operations over that of fused ones, counted for a Llama layer's forward pass: 38 bytes per
element for each norm (cast to fp32, square, mean, scale, cast, weight) where a fused norm moves 4, 24 for each rotation, 10 for
the gate, 6 for each residual sum; in total 153 bytes per element of the stream against 44."""

DROPOUT_BYTES = {"forward": 2.0, "backward": 10.0}
"""Traffic of dropout on a layer's two sums, per element of the stream, where it is fused with the sum: forward each writes a
mask of one byte; backward each reads mask and cotangent and writes a cotangent."""

SHARDING_COPIES = {"fp32": 14.0, "bf16": 4.0}
"""Traffic of PyTorch's FSDP per element of a layer's gradient before its reduction, by the type of the reduction: the gradient
is cast (2 bytes read, 4 written) and divided in place (torch/distributed/fsdp/_runtime_utils.py, ``_reduce_grad``). The second
version divides in the reduction, but copies gathered weights out twice and gradients in: 14 bytes too (_fsdp_collectives)."""

DETERMINISTIC_OF_USUAL = 1.0 - 0.379
"""Rate of attention's backward kernel where it adds the gradients of queries in a fixed order, over its usual rate: the largest
loss measured with FlashAttention-3 (DASH, arXiv:2601.21824)."""

FORWARD_KERNELS = 10.0
"""Memory-bound kernels of a layer's forward pass after fusion: two norms, two residuals, RoPE of query and key, gate, casts of
the weights."""


@dataclass(frozen=True)
class StepWork:
    """Times of a device's own work in a step; columns of shape ``[n]`` in seconds.

    Source: docs/step.md; ``cost_models.compute.kernels`` for each kind of kernel.
    """

    layout: Layout
    rates: Rates

    @cached_property
    def passes(self) -> Floats:
        """Layer passes of a step, ``L M``; of a stage with those of its idle ticks [count]."""
        return layer_passes(self.layout)

    @cached_property
    def _share(self) -> Floats | float:
        """Slow-down of one device: a CPU's devices share its cores, and its spec gives each an equal share of them."""
        hardware = self.layout.setting.hardware
        return self.layout.devices / hardware.domain_size if hardware.kind == "cpu" else 1.0

    def _gemm(self, parameters: Floats | float, products: float) -> Floats:
        """Return the time of ``products`` products of one microbatch's tokens with ``parameters`` elements (whole width)."""
        layout = self.layout
        local = parameters / layout.tensor
        flop = products * 2.0 * layout.tokens * local
        traffic = products * layout.activation_bytes * local
        seconds = gemm_seconds(flop, traffic, flop_per_s=self.rates.gemm.value, hbm_bytes_per_s=self.rates.hbm.value)
        return seconds * self._share

    def _memory(self, traffic_bytes: Floats, kernels: float) -> Floats:
        seconds = memory_seconds(traffic_bytes, kernels, hbm_bytes_per_s=self.rates.hbm.value, floor_s=self.floor_s)
        return seconds * self._share

    @property
    def floor_s(self) -> float:
        """Least time of one kernel [s]."""
        return KERNEL_FLOOR_S if self.layout.setting.hardware.kind == "gpu" else 0.0

    @cached_property
    def layer_forward_gemm(self) -> Floats:
        """Forward products of one layer and microbatch [s]."""
        return self._products(1.0)

    @cached_property
    def layer_backward_gemm(self) -> Floats:
        """Backward products of one layer and microbatch [s]."""
        return self._products(2.0)

    @cached_property
    def layer_again_gemm(self) -> Floats:
        """Products of one layer and microbatch that the backward pass repeats [s]."""
        repeated = recomputed_matrix_parameters(self.layout)
        model, experts = self.layout.setting.model, self.layout.setting.model.routed
        if experts is None:
            return self._gemm(repeated, 1.0)
        fed = np.where(self.layout.saves("gate"), 0.0, 1.0) + np.where(self.layout.saves("up"), 0.0, 1.0)
        fed = fed + (self.layout.setting.program.expert_weights == "after-down") * np.minimum(fed, 1.0)
        dense = repeated - fed * model.d_model * experts.active * experts.d_ff - model.router_parameters
        masks = one_hot_seconds(self.layout, self.rates, products=1.0) * ~self.layout.saves("dispatched")
        return self._gemm(dense + self._router, 1.0) + self._expert_products(fed) + masks * self._share

    def _products(self, times: float) -> Floats:
        """Return the time of one layer's and microbatch's products, forward (1) or backward (2)."""
        model = self.layout.setting.model
        if model.routed is None:
            return self._gemm(float(model.layer_matrix_parameters), times)
        dense = self._gemm(model.attention_matrix_parameters + model.shared_matrix_parameters + self._router, times)
        masks = one_hot_seconds(self.layout, self.rates, products=1.0 + times) * self._share
        return dense + self._expert_products(3.0 * times, sums=3.0 * (times - 1.0)) + masks

    @property
    def _router(self) -> Floats:
        """Elements of the router in the count of ``_gemm``: every rank multiplies all of them with its tokens."""
        return self.layout.setting.model.router_parameters * self.layout.expert_tensor

    def _expert_products(self, products: Floats | float, *, sums: float = 0.0) -> Floats:
        return expert_product_seconds(self.layout, self.rates, products=products, sums=sums) * self._share

    @cached_property
    def forward_attention(self) -> RingSteps:
        """Forward attention of one layer and microbatch."""
        return self._ring(backward=False)

    @cached_property
    def backward_attention(self) -> RingSteps:
        """Backward attention of one layer and microbatch."""
        return self._ring(backward=True)

    def _ring(self, *, backward: bool) -> RingSteps:
        steps = ring_steps(self.layout, self.rates, backward=backward)
        slower = DETERMINISTIC_OF_USUAL if backward and self.layout.setting.program.deterministic else 1.0
        share = self._share / slower
        return RingSteps(steps.first_s * share, steps.later_s * share, steps.later)

    def _layer_memory(self, stream_passes: float, width_passes: float, *, which: str) -> Floats:
        """Return the memory-bound work of a layer: passes over the residual stream and over query, key and feed-forward."""
        layout = self.layout
        tokens = layout.stream_tokens if layout.setting.program.sequence_parallel else layout.tokens
        stream_passes += POST_NORM_PASSES[which] * layout.setting.model.post_norms
        stream = stream_passes * tokens * layout.setting.model.d_model
        masks = layout.setting.program.dropout * DROPOUT_BYTES[which] * tokens * layout.setting.model.d_model
        part = None if layout.setting.model.routed is None else ExpertLayout(layout)
        fed = layout.tokens * layout.ff_width if part is None else part.busiest * part.width
        wide = fed + layout.tokens * layout.shared_width
        widths = width_passes * (layout.tokens * (layout.query_width + layout.kv_width) + 1.5 * wide)
        if layout.setting.program.elementwise == "eager":
            stream, widths = stream * EAGER_OF_FUSED, widths * EAGER_OF_FUSED
        traffic = layout.activation_bytes * (stream + widths) + masks + merge_bytes(layout, self.forward_attention)
        if layout.setting.model.routed is None:
            return self._memory(traffic, FORWARD_KERNELS)
        return self._memory(traffic + expert_copy_bytes(layout, which), FORWARD_KERNELS) + row_move_seconds(layout)

    @cached_property
    def layer_forward_memory(self) -> Floats:
        """Memory-bound operations of one layer and microbatch in the forward pass [s]."""
        return self._layer_memory(FORWARD_STREAM_PASSES, 2.0, which="forward")

    @cached_property
    def _layer_backward_memory(self) -> Floats:
        return self._layer_memory(BACKWARD_STREAM_PASSES, 4.0, which="backward")

    @property
    def layer_forward(self) -> Floats:
        """Forward pass of one layer and microbatch, without collectives [s]."""
        return self.layer_forward_gemm + self.forward_attention.total_s + self.layer_forward_memory

    @property
    def layer_backward(self) -> Floats:
        """Backward pass of one layer and microbatch including repeated forward work, without collectives [s]."""
        again = self.layer_again_gemm + self.forward_attention.total_s * recomputes_attention(self.layout)
        repeated = np.where(self.repeats, again + self.layer_forward_memory, 0.0)
        return repeated + self.layer_backward_gemm + self.backward_attention.total_s + self._layer_backward_memory

    @cached_property
    def gemm(self) -> Floats:
        """Matrix products of the layers, forward and backward [s per step]."""
        return self.passes * (self.layer_forward_gemm + self.layer_backward_gemm)

    @cached_property
    def attention(self) -> Floats:
        """Attention kernels of the slowest rank, forward and backward [s per step]."""
        return self.passes * (self.forward_attention.total_s + self.backward_attention.total_s)

    @cached_property
    def hbm(self) -> Floats:
        """Norms, rotations, residual sums, gates, merges, copies of sharded weights and gradients [s per step].

        On CPU also copies of kept tensors.
        """
        layers = self.layer_forward_memory + self._layer_backward_memory + self._sharding_copies
        return self.passes * layers + self._stacking

    @property
    def _sharding_copies(self) -> Floats:
        """Casts, divisions and copies of a layer's sharded weights and gradients in PyTorch, per microbatch."""
        layout, program = self.layout, self.layout.setting.program
        if program.runtime != "torch":
            return np.zeros(len(layout.table))
        elements = layout.setting.model.layer_matrix_parameters / layout.tensor * (layout.weight_shards > 1)
        return self._memory(SHARDING_COPIES["bf16" if program.pure_bf16 else "fp32"] * elements, 0.0)

    @cached_property
    def _stacking(self) -> Floats:
        """Time in which a CPU's loop over layers copies kept tensors into an array of all layers, and out of it."""
        layout = self.layout
        if layout.setting.hardware.kind != "cpu":
            return np.zeros(len(layout.table))
        return layout.microbatches * self._memory(STACK_PASSES * on_device_bytes(layout), 1.0)

    @cached_property
    def repeats(self) -> Floats:
        """1 where the backward pass repeats products or attention of a layer, else 0 [count]."""
        return 1.0 - 1.0 * (recomputed_matrix_parameters(self.layout) == 0) * ~recomputes_attention(self.layout)

    @cached_property
    def recompute(self) -> Floats:
        """Products, attention and memory-bound work that rematerialisation repeats [s per step]."""
        attention = self.forward_attention.total_s * recomputes_attention(self.layout)
        return self.passes * (self.layer_again_gemm + attention + self.layer_forward_memory * self.repeats)

    @cached_property
    def loss(self) -> Floats:
        """Head and softmax: a chunk's logits, their gradient and its two products [s per step]."""
        layout = self.layout
        if layout.outside is None:
            return np.zeros(len(layout.table))
        model, own = layout.setting.model, dealt(layout)
        rows = replace(self, layout=own)
        products = rows._gemm(float(model.vocab * model.d_model), layout.setting.program.loss_products)
        logits = 4.0 * own.tokens * layout.vocab_width
        head = layout.setting.program.head_bytes * own.loss_chunks * layout.vocab_width * model.d_model
        return layout.microbatches * (products + self._memory(6.0 * logits + head, 1.0))

    @cached_property
    def optimizer(self) -> Floats:
        """The optimizer's update of a device's shard, and sums of gradients over microbatches [s per step]."""
        layout = self.layout.outside
        if layout is None:
            return np.zeros(len(self.layout.table))
        elements = layout.setting.model.parameters / layout.state_shards * Stages(layout).share
        update = elements / optimizer_shards(layout) * layout.state.update_traffic
        apart = layout.setting.program.gradient_sums == "apart"
        each = 2.0 * layout.state.sums + layout.state.gradient
        sums = each * elements * np.where(apart & (layout.microbatches > 1), layout.microbatches, 0.0)
        return self._memory(update + sums, 1.0)
