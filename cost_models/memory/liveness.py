"""Buffers alive at the few moments of a step that can need most memory, in addition to persistent state.

The buffers of each moment were read off XLA's buffer assignment (jax 0.10.1, GPU targets), in terms of the tensors of
docs/step.md. XLA pipelines the reduce-scatters of weight gradients: they overlap the next layer's backward pass, which
therefore holds a whole layer of unreduced gradients in addition to its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.compute.kernels import BIAS_BYTES
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.masks.tiles import chunk_tiles
from cost_models.masks.windows import Halo
from cost_models.schemes import SCHEME_COSTS

FP32_BYTES = 4.0

STREAM_SHARDS = 3.0
"""Buffers of the residual stream's size that live throughout a layer's backward pass: the layer's input, the stream after
attention, and the incoming cotangent."""

SCORE_BUFFERS = 3.0
"""fp32 blocks of scores that blockwise attention holds in its backward pass: scores, their exponentials, and a cotangent."""

ATTENTION_OPERANDS = 3.0
"""Buffers of the queries' size: queries, output, the output's cotangent."""


@dataclass(frozen=True)
class LayerBackward:
    """One layer's backward pass; columns of shape ``[n]`` in bytes per device.

    Symbols: ``a`` bytes of an activation element, ``g`` of a gathered weight, ``r`` of a gradient that is reduced; ``tl``
    tokens of a context rank, ``ts`` of the residual stream; the rest as in docs/notation.md.

    Source: buffer assignments of XLA (jax 0.10.1, GPU targets), read in the tensors of docs/step.md.
    """

    layout: Layout
    squeezed: bool = False
    """Whether XLA rematerialises, because its own estimate exceeds its limit (``cost_models.memory.limit``)."""
    late: bool = True
    """Whether XLA reduces a layer's gradients during the next layer (``unreduced``)."""

    @cached_property
    def stream(self) -> Floats:
        """The residual stream of a context rank's tokens, gathered over tensor: ``a tl D`` [bytes per device]."""
        return self.layout.held_bytes * self.layout.tokens * self.layout.setting.model.d_model

    @cached_property
    def wide(self) -> Floats:
        """A feed-forward tensor: ``a tl F / t`` [bytes per device]."""
        return self.layout.held_bytes * self.layout.tokens * self.layout.ff_width

    @cached_property
    def queries(self) -> Floats:
        """Queries, or any tensor of their shape: ``a tl N H / t`` [bytes per device]."""
        return self.layout.held_bytes * self.layout.tokens * self.layout.query_width

    @cached_property
    def pair(self) -> Floats:
        """Keys and values of a chunk, with the copies of an exchange of heads: ``2 a tl K H / t`` [bytes per device]."""
        copies = np.where(self.layout.scheme_has(lambda facts: facts.sees_whole_sequences), 1.0, self.layout.kv_copies)
        return 2.0 * self.layout.held_bytes * self.layout.tokens * self.layout.kv_width * copies

    @cached_property
    def _keeps_up(self) -> Bools:
        return self.layout.saves("gate") & self.layout.saves("up")

    @cached_property
    def _keeps_qkv(self) -> Bools:
        return self.layout.saves("query") & self.layout.saves("key") & self.layout.saves("value")

    @cached_property
    def _normed(self) -> Floats:
        """Gathered normed streams from which the products of attention and of the feed-forward are recomputed.

        Where a product's results are kept, its input is gathered only when the weight's gradient is computed.
        """
        again = ~self._keeps_qkv & ~(self._later & self.squeezed)
        return 1.0 - self._keeps_up + again * self._attended

    @cached_property
    def _later(self) -> Bools:
        """Rows that need queries, keys and values only after the feed-forward's backward pass, and recompute them.

        Attention's output is kept, so that nothing before attention's own backward pass reads them.
        """
        return self.layout.saves("attention_output") & ~self._keeps_qkv

    @cached_property
    def waiting_attention(self) -> Floats:
        """Queries and attention's output while the feed-forward runs backward: ``2 a tl N H / t`` [bytes per device].

        An exchange of heads has the output in both layouts where the product after it is computed again: the kernel's own is
        read by the kernel's backward pass, a rank's tokens by the product. It also starts early: queries that are needed
        later already arrive, unless XLA must save memory.
        """
        exchanges = (self.layout.exchange > 1) & (self.layout.setting.hardware.kind != "tpu")
        copies = exchanges * (1.0 - self.layout.saves("attention_out"))
        early = np.where(self.squeezed, -1.0, exchanges) * self._later
        return self.queries * (ATTENTION_OPERANDS - 1.0 + copies + early)

    @property
    def _attended(self) -> float:
        """Width of the input of attention's products, as a share of the residual stream: below 1 for compressed inputs."""
        model = self.layout.setting.model
        return model.attended_width / model.d_model

    @cached_property
    def _shards(self) -> Floats:
        return STREAM_SHARDS * self.stream / self.layout.tensor

    @cached_property
    def feed_forward(self) -> Floats:
        """Working set where ``down``'s gradient or the gate's cotangent is computed, whichever is larger [bytes per device].

        The first holds gate, up, their product and the gathered cotangent, which with tensor 1 is the incoming one. The
        second holds a fourth tensor of their size in place of the gathered cotangent; XLA recomputes it where it must save
        memory.
        """
        normed, cotangent = self._normed * self.stream, np.where(self.layout.tensor > 1, self.stream, 0.0)
        product = 3.0 * self.wide + normed + cotangent
        both = np.maximum(normed, cotangent) if self.late else normed + cotangent
        gate = 4.0 * self.wide + both
        most: Floats = np.where(self.squeezed & ~self._keeps_up, product, np.maximum(product, gate))
        return most + self._shards + self.waiting_attention

    @cached_property
    def stream_products(self) -> Floats:
        """Working set just before the input gradients of gate and up are added [bytes per device].

        Each of the two is a gathered stream.
        """
        cotangent = (self.layout.tensor > 1) * (not self.late)
        streams = (self._normed + 2.0 + cotangent) * self.stream
        return 2.0 * self.wide + streams + self._shards + self.waiting_attention

    @cached_property
    def attention(self) -> Floats:
        """Working set of the attention kernel's backward pass for the queries [bytes per device].

        A ring or gathered chunks add an fp32 sum of the queries' gradients. The half chunks of zigzag are copied (query,
        output, cotangent), and the kernel returns the gradient of one half.
        """
        layout = self.layout
        chunked = layout.rings | layout.gathers
        halves = chunked & layout.scheme_has(lambda facts: facts.balanced)
        sums = np.where(chunked, FP32_BYTES / layout.held_bytes, 0.0)
        kernel = self.queries * (ATTENTION_OPERANDS + sums + np.where(halves, 2.0, 1.0)) + self._scores
        if layout.window is not None:  # padded copies of the operands, and the gradient of as many queries
            kernel = kernel + self.queries * np.where(self._halo.share > 0, ATTENTION_OPERANDS * self._halo.padded, 0.0)
        return kernel + (1.0 - self._keeps_qkv) * self._attended * self.stream + self._shards

    @cached_property
    def _halo(self) -> Halo:
        """The halo of a windowed layer."""
        return Halo(self.layout)

    @cached_property
    def _scores(self) -> Floats | float:
        """Blocks of scores of a kernel that is not fused: ``4 b N / t`` bytes per element of a tile.

        cuDNN takes documents as a bias: ``2 b (e l)^2`` for a chunk of ``e l`` tokens. In a windowed layer the bias covers a
        run and its halo.
        """
        layout = self.layout
        if layout.setting.kernel == "cudnn" and layout.setting.workload.document_len is not None:
            run = layout.exchange * layout.local_length
            if layout.window is not None:
                run = self._halo.chunk + self._halo.tokens
            return BIAS_BYTES * layout.sequences * run**2
        if layout.setting.kernel != "blockwise":
            return 0.0
        heads = layout.sequences * layout.query_width / layout.setting.model.head_dim
        query_tile, key_tile = chunk_tiles(layout)
        return SCORE_BUFFERS * FP32_BYTES * heads * query_tile * key_tile

    @cached_property
    def keys_at_rest(self) -> Floats:
        """Keys and values outside attention's backward pass; a ring has made its first hop [bytes per device].

        Where attention's output is kept they come later, except by a collective that starts early: gathered ones of all
        ranks, exchanged ones.
        """
        layout = self.layout
        pairs = sum((cost.pairs_at_rest(layout) for cost in SCHEME_COSTS), np.ones(len(layout.table)))
        if layout.setting.hardware.kind == "tpu":
            return self.pair * pairs
        early = np.where(layout.gathers, 1.0 + layout.context, 1.0 * (layout.exchange > 1)) * (not self.squeezed)
        return self.pair * np.where(self._later, early, pairs)

    @cached_property
    def keys(self) -> Floats:
        """Keys, values and their gradients while the attention kernel runs backward [bytes per device].

        The kernel has operands and results. A ring adds a chunk in flight, a copy, and the fp32 gradients that travel with it.
        All-gather adds every rank's chunk and its fp32 gradients. A windowed layer adds its halo and the rank's own chunk.
        """
        layout = self.layout
        buffers = sum((cost.pairs_backward(layout) for cost in SCHEME_COSTS), np.full(len(layout.table), 2.0))
        halo = Halo(layout).share if layout.window is not None else 0.0
        return self.pair * (buffers + np.where(halo > 0, 1.0 + 2.0 * halo, 0.0))

    @cached_property
    def _fed(self) -> Floats:
        """Elements of one of gate, up and down: ``D F / t``."""
        return self.layout.setting.model.d_model * self.layout.ff_width

    @cached_property
    def _matrices(self) -> Floats:
        """Elements of all matrices of a layer: ``P_layer / t``."""
        model = self.layout.setting.model
        return (model.layer_matrix_parameters - model.latent_parameters) / self.layout.tensor + model.latent_parameters

    @cached_property
    def _sharded(self) -> Bools:
        return self.layout.weight_shards > 1

    @cached_property
    def weights(self) -> Floats:
        """The layer's matrices as gathered for the feed-forward's backward pass: ``g P_layer / t`` [bytes per device]."""
        return self.layout.gather_bytes * self._matrices * self._sharded

    @cached_property
    def attention_weights(self) -> Floats:
        """Gathered matrices when attention runs backward: query, key and value [bytes per device]."""
        layout = self.layout
        model = layout.setting.model
        if model.latent is None:
            return layout.gather_bytes * model.d_model * (layout.query_width + 2.0 * layout.kv_width) * self._sharded
        expanding = sum(model.attention_products.values()) - model.attention_products["attention_out"]
        return layout.gather_bytes * (expanding / layout.tensor + model.latent_parameters) * self._sharded

    @cached_property
    def unreduced(self) -> Floats:
        """Gradients of the previous layer and of this layer's ``down``: ``r (P_layer + D F) / t`` [bytes per device]."""
        return self._previous + self.layout.reduce_bytes * self._fed * self._sharded

    @property
    def _previous(self) -> Floats:
        """Gradients of the previous layer, where they are reduced during this one."""
        return self.layout.reduce_bytes * self._matrices * self._sharded * self.late

    @property
    def products_unreduced(self) -> Floats:
        """Unreduced gradients where ``stream_products`` are added, as ``unreduced`` [bytes per device]."""
        return self.unreduced

    @cached_property
    def waiting(self) -> Floats:
        """Bytes of this layer that an iteration over several layers holds while another layer runs backward [bytes per device].

        They are its whole gradients, ``r P_layer / t``, which are reduced during the next iteration; on CPU also its fp32
        weights. On TPU every reduction ends in its iteration, but an iteration starts with copies of the inputs and weight
        shards of all its layers: ``a ts D + g P_layer / (f c e t)`` (read in iterations of two and of three layers on v5p).
        """
        if self.layout.setting.hardware.kind == "tpu":
            shards = self.layout.setting.model.layer_matrix_parameters / self.layout.state_shards
            return self.stream / self.layout.tensor + self.layout.gather_bytes * shards
        weights = self.layout.held_bytes if self.layout.setting.hardware.kind == "cpu" else 0.0
        return (self.layout.reduce_bytes + weights) * self._matrices * self._sharded

    @cached_property
    def attention_unreduced(self) -> Floats:
        """Unreduced gradients when attention runs backward, after those of feed-forward and output [bytes per device]."""
        layout = self.layout
        model = layout.setting.model
        made = self.late * (model.up_matrices + 1) * self._fed + model.attention_products["attention_out"] / layout.tensor
        return self._previous + layout.reduce_bytes * made * self._sharded

    @cached_property
    def loop(self) -> Floats:
        """Working set of one iteration of a TPU's loop over layers, without the previous layer's gradients [bytes per device].

        Splash attention has the head axis first, so queries and output exist twice; the cotangent of ``down`` stays gathered.
        """
        copies = (ATTENTION_OPERANDS - 1.0) * self.queries + np.where(self.layout.tensor > 1, self.stream, 0.0)
        reduced = self.layout.reduce_bytes * self._fed * self._sharded
        iteration = self.feed_forward + copies + self.keys_at_rest + self.weights + reduced
        return np.maximum(iteration, self.attention + self.keys + self.attention_weights + reduced)
