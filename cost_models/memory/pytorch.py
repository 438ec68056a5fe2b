"""Memory of a PyTorch trainer's step on one device: autograd's saved tensors, the optimizer's state, the logits' copies.

PyTorch frees a tensor when the last kernel that reads it is launched. A step's peak is therefore at one of four moments: when
the last layer's activations and the logits' gradient exist; when one layer's feed-forward, or its attention, runs backward; or
in the optimizer's update. The total is the allocator's peak of allocated bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.state_place import optimizer_shards
from cost_models.inputs.table import CODES
from cost_models.memory.parts import PHASES
from cost_models.memory.saved_tensors import kept_bytes
from cost_models.parts.memory import STEP_MEMORY
from cost_models.parts.part import keys
from cost_models.schemes import SCHEME_COSTS
from lcplan.strategy.remat import LAYER_IN

FP32_BYTES = 4.0

LOGIT_BYTES = 12.0
"""Bytes per logit at the peak: its log-softmax, the gradient of the labels' terms and the whole gradient, each in fp32."""

FUSED_LOGIT_BYTES = 8.0
"""Bytes per logit with a fused cross entropy that computes the gradient in place: bf16 logits, their fp32 copy, the bf16
gradient."""

FEED_FORWARD_COTANGENTS = 2.0
"""Buffers of a feed-forward tensor's size, in addition to the layer's kept tensors: cotangents of the gate and of up, while the
activated gate and their product are still alive."""

ATTENTION_COTANGENTS = 2.0
"""Buffers of the size of queries, keys and values: the cotangents of attention's operands, and of its output, which is as large
as the queries."""

SCORE_BYTES = 5.0
"""Bytes per score that unfused attention keeps: softmax's output and the weights after dropout in bf16, and dropout's mask."""

SCORE_COTANGENT_BYTES = 4.0
"""Bytes per score of unfused attention's backward pass: the cotangents of the weights and of the scores, both in bf16."""

HOPPER = 9
"""Major compute capability of Hopper."""

WORKSPACE_BYTES = {"before": 2.0 * 4096 * 1024 + 8.0 * 16 * 1024, "hopper": 32.0 * 1024 * 1024}
"""Workspaces of cuBLAS in PyTorch: two of 4096 KiB and eight of 16; 32 MiB from Hopper on (docs.pytorch.org,
CUBLAS_WORKSPACE_CONFIG in torch.backends.cuda; ATen/cuda/CublasHandlePool.cpp)."""

USER_BUFFERS = 10.0
"""Buffers of a whole residual stream that Transformer Engine keeps for overlapping tensor's communication: six of gathers and
four of scatters, which all layers share (github NVIDIA/TransformerEngine, pytorch/module/base.py, ``initialize_ub``)."""

RESERVED_OF_ALLOCATED = 1.06
"""The allocator's reserved bytes over its allocated bytes: 70.88 GiB over 66.55 and 92.26 over 87.08 (SimuMax's Megatron-LM
runs on B200, github MooreThreads/SimuMax docs/b200/b200_release_v1.2_summary)."""


@dataclass(frozen=True)
class TorchMemory:
    """Memory parts of a PyTorch step; columns of shape ``[n]`` in bytes per device.

    Source: Korthikanti et al. (arXiv:2205.05198), section 4, for activations; PyTorch's autograd for the tensors that each
    operation keeps.
    """

    layout: Layout

    @cached_property
    def _elements(self) -> Floats:
        """Parameters on one device by the split of the weights."""
        return self.layout.setting.model.parameters / self.layout.state_shards

    @cached_property
    def params(self) -> Floats:
        """Weights that the optimizer updates, split like its state, and a copy in the compute dtype, if any [bytes per device].

        Without masters the compute dtype's weights are all there is.
        """
        layout, copied = self.layout, self.layout.setting.program.compute_copy
        alone = copied & (layout.table.master_dtype == CODES["master_dtype"].index("none"))
        master = np.where(alone, 0.0, layout.state.master)
        return (master / optimizer_shards(layout) + (layout.activation_bytes if copied else 0.0)) * self._elements

    @cached_property
    def optimizer(self) -> Floats:
        """The optimizer's moments [bytes per device]."""
        return self.layout.state.moments * self._elements / optimizer_shards(self.layout)

    @cached_property
    def grads(self) -> Floats:
        """Gradients of a device's weights, in fp32 or bf16; with ZeRO-2 only the device's shard [bytes per device].

        Autograd adds gradients up in the dtype of the weights; a trainer with a copy of the weights has buffers of its own.
        """
        layout, program = self.layout, self.layout.setting.program
        shards = optimizer_shards(layout) if program.gradients_over == "optimizer" else 1.0
        halves = layout.state.rounded & (not program.compute_copy)
        return np.where(halves | program.pure_bf16, 2.0, layout.state.sums) * self._elements / shards

    @cached_property
    def _stream(self) -> Floats:
        """One residual stream as a device holds it between products."""
        layout = self.layout
        tokens = layout.stream_tokens if layout.setting.program.sequence_parallel else layout.tokens
        return layout.activation_bytes * tokens * layout.setting.model.d_model

    @cached_property
    def _token(self) -> Floats:
        """Bytes of a device's tokens for each feature."""
        return self.layout.activation_bytes * self.layout.tokens

    @cached_property
    def _feed_forward(self) -> Floats:
        """Tensors that autograd keeps of a feed-forward: gate, up, the activated gate (in eager mode its sigmoid too), their
        product."""
        eager, gated = self.layout.setting.program.elementwise == "eager", self.layout.setting.model.mlp == "gated"
        return self._token * self.layout.ff_width * ((4.0 if eager else 3.0) if gated else 2.0)

    @cached_property
    def layer_activations(self) -> Floats:
        """All tensors that autograd keeps of one layer [bytes per device].

        Inputs and outputs of both norms, query, key, value, attention's output and log-sum-exp, and the feed-forward's
        tensors; scores and weights too where attention is not fused.
        """
        layout, program = self.layout, self.layout.setting.program
        attention = self._token * (2.0 * layout.query_width + 2.0 * layout.kv_width)
        statistics = FP32_BYTES * layout.tokens * layout.query_width / layout.setting.model.head_dim
        streams = 4.0 + (2.0 / layout.activation_bytes if program.dropout else 0.0)
        kept = streams * self._stream + attention + statistics + self._feed_forward + self._norms
        return kept + self._scores if program.attention == "unfused" and not program.recompute_scores else kept

    @cached_property
    def _norms(self) -> Floats:
        """Inputs of the norms of queries and keys; for norms that are written out, also fp32 copies of all norms' inputs."""
        layout, program = self.layout, self.layout.setting.program
        heads = layout.tokens * (layout.query_width + layout.kv_width) * layout.setting.model.qk_norm
        inputs = layout.activation_bytes * heads
        if program.norms != "kept":
            return inputs
        return inputs + FP32_BYTES * (2.0 * self._stream / layout.activation_bytes + heads)

    @cached_property
    def _scores(self) -> Floats:
        """Softmax's output, the weights after dropout, and its mask, of a rank's queries with all keys."""
        heads = self.layout.query_width / self.layout.setting.model.head_dim
        return SCORE_BYTES * self.layout.tokens * self.layout.setting.workload.seq_len * heads

    @property
    def _scores_backward(self) -> Floats | float:
        """Bytes that unfused attention's backward pass adds: cotangents of scores, and scores that remat repeats."""
        program = self.layout.setting.program
        if program.attention != "unfused":
            return 0.0
        share = SCORE_COTANGENT_BYTES / SCORE_BYTES
        return self._scores * (share + (1.0 if program.recompute_scores else 0.0))

    @cached_property
    def _saved(self) -> Floats:
        """Bytes that one layer keeps for its backward pass: all tensors, or its input and the tensors kept by name."""
        layout = self.layout
        sizes = kept_bytes(layout) | {LAYER_IN: self._stream * (1.0 - self._away)}
        sizes["attention_out"] = self._stream * layout.saves("attention_out")
        everything = np.logical_and.reduce([layout.saves(name) for name in sizes if name != LAYER_IN])
        kept = sum(sizes.values(), start=np.zeros(len(layout.table)))
        return np.where(everything, self.layer_activations, kept)

    @property
    def _away(self) -> Floats:
        """The share of layers whose input waits on the host."""
        if LAYER_IN not in self.layout.offloaded:
            return np.zeros(len(self.layout.table))
        return self.layout.offloads(LAYER_IN).astype(np.float64)

    @cached_property
    def saved_activations(self) -> Floats:
        """Tensors of all layers that live from the forward to the backward pass [bytes per device]."""
        return self.layout.setting.model.layers * self._saved

    @cached_property
    def _again(self) -> Floats:
        """Bytes that a layer's backward pass recomputes before it begins."""
        return np.maximum(self.layer_activations - self._saved, 0.0)

    @cached_property
    def _sharded(self) -> Bools:
        return self.layout.weight_shards > 1

    @property
    def _gathered_model(self) -> Floats:
        """All weights, gathered in the forward pass and kept for the backward pass."""
        layout = self.layout
        return layout.gather_bytes * layout.setting.model.parameters / layout.tensor * self._sharded

    @cached_property
    def _gathered_layer(self) -> Floats:
        """Gathered weights of two layers, the current and the next; of all where they are kept for the backward pass."""
        layout = self.layout
        if layout.setting.program.weights_gathered == "once":
            return self._gathered_model
        return 2.0 * layout.gather_bytes * layout.setting.model.layer_matrix_parameters / layout.tensor * self._sharded

    @cached_property
    def _table(self) -> Floats:
        """Elements of the head, as a device multiplies with it."""
        return self.layout.vocab_width * self.layout.setting.model.d_model

    @property
    def _head_gradient(self) -> Floats:
        """The head's gradient as its product returns it, before it is added, and its reduction's buffer where it is split."""
        layout = self.layout
        made = layout.gather_bytes if layout.setting.program.gradient_sums == "apart" else 0.0
        return (made + layout.reduce_bytes * self._sharded) * self._table

    @property
    def _workspace(self) -> float:
        """Bytes that cuBLAS takes from the allocator, from the first product on."""
        gpu = self.layout.setting.hardware.device.gpu
        hopper = gpu is not None and gpu.compute_capability is not None and gpu.compute_capability[0] >= HOPPER
        return WORKSPACE_BYTES["hopper" if hopper else "before"]

    @cached_property
    def _ring(self) -> Floats:
        """Buffers of the keys, values and gradients that context ranks exchange, by scheme."""
        return sum((cost.torch_bytes(self.layout) for cost in SCHEME_COSTS), np.zeros(len(self.layout.table)))

    @property
    def _user_buffers(self) -> Floats:
        """Buffers for gathers and scatters of the stream that run during products (``USER_BUFFERS``)."""
        asked = (self.layout.table.collective_matmul > 0) & (self.layout.table.tensor > 1)
        return asked * USER_BUFFERS * self._token * self.layout.setting.model.d_model

    def phases(self) -> dict[str, dict[str, Floats]]:
        """Return the bytes of each moment without persistent state [bytes per device].

        The head's gradient exists in the dtype of its product before it is added, and in the dtype of its reduction where it
        is split.
        """
        layout, program = self.layout, self.layout.setting.program
        per_logit = program.logit_bytes or (FUSED_LOGIT_BYTES if program.fused_loss else LOGIT_BYTES)
        saved, queries = {"saved_activations": self.saved_activations}, self._token * layout.query_width
        in_layer = {**saved, "gathered_weights": self._gathered_layer}
        gates = FEED_FORWARD_COTANGENTS * self._token * layout.ff_width
        operands = ATTENTION_COTANGENTS * (queries + self._token * layout.kv_width)
        attention = np.maximum(self._again - self._feed_forward, 0.0) + self._scores_backward
        return {
            "loss": {
                **saved,
                "logits_loss": (per_logit + program.kept_logit_bytes) * layout.loss_chunk * layout.vocab_width,
                "working_set": 2.0 * self._stream,
                "gathered_weights": self._gathered_model
                if program.weights_gathered == "once"
                else layout.gather_bytes * self._table * self._sharded,
                "collective_buffers": self._head_gradient,
            },
            "feed_forward_backward": {**in_layer, "working_set": self._again + gates + 2.0 * self._stream},
            "attention_backward": {
                **in_layer,
                "working_set": attention + operands + 2.0 * self._stream,
                "kv_ring": self._ring,
            },
            "update": {"working_set": program.update_bytes * self._elements / optimizer_shards(layout)},
        }

    def parts(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Return bytes by ``STEP_MEMORY``, their sum [bytes per device], and the binding moment's index into ``PHASES``."""
        held = self.phases()
        zero = np.zeros(len(self.layout.table))
        sums = np.stack([reduce(np.add, sizes.values()) for sizes in held.values()])
        phase = sums.argmax(axis=0)
        parts: dict[str, Floats] = {
            name: np.choose(phase, [sizes.get(name, zero) for sizes in held.values()]) for name in keys(STEP_MEMORY)
        }
        parts["working_set"] = parts["working_set"] + self._workspace
        travels = np.maximum(1.0 * self._sharded, self.layout.joins(("data", "fsdp", "context", "expert")))
        buckets = self.layout.setting.program.bucket_bytes * travels + self._user_buffers
        parts["collective_buffers"] = parts["collective_buffers"] + buckets
        batch = 16.0 * self.layout.tokens
        parts |= {"params": self.params, "optimizer": self.optimizer, "grads": self.grads, "batch": batch}
        total = sum(parts.values(), start=zero)
        codes = np.array([PHASES.index(name) for name in held], dtype=np.int8)
        return parts, total, codes[phase]
