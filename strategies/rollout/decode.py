"""Prefill and decode with the train step's decoder. Inside ``shard_map``: all lengths are local.

B sequences of this device's data x fsdp rank, one new token each; R = B / tensor of their rows in its residual stream. The
cache is the carry of the scan over layers, so that each layer writes into it in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from strategies.layers.activation import rms_norm
from strategies.layers.rope import Angles, angles
from strategies.model.decoder import Decoder, Layer
from strategies.model.embedding import embed
from strategies.parallel.collectives import all_gather
from strategies.parallel.mesh import TENSOR
from strategies.rollout.cache import Cache, Place, attend_to_cache, write
from strategies.rollout.next_token import logits_of
from strategies.rollout.sample_spec import SampleSpec
from strategies.schemes import attend

PREFILL_TOKENS = 2048
"""Prompt tokens of a device that go through a layer at a time: enough for efficient products, few for their memory."""

LayerOf = Any
"""``(layer, x_RD, cache, number) -> (x_RD, cache)``."""


@dataclass(frozen=True)
class Decode:
    """Logits of the next token of every sequence, and the cache with this one; attention reads ``length`` positions."""

    spec: SampleSpec
    graph: Any
    length: int

    def __call__(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""]
    ) -> tuple[Cache, Float[Array, "B V"]]:
        """Run one step: ``tokens_B`` are at ``position``, and the cache has all positions before it."""
        decoder: Decoder = nnx.merge(self.graph, params)
        rope = self._angles(position[None])

        def layer(module: Layer, x_RD: Array, cache: Cache, number: Array) -> tuple[Array, Cache]:
            q_B1NH, kv_2B1KH = module.attention.heads(x_RD, rope)
            cache = write(cache, kv_2B1KH, Place(number, 0, position))
            o_B1NH = attend_to_cache(q_B1NH, cache, layer=number, position=position, length=self.length)
            return module.joined(x_RD, module.attention.output(o_B1NH))[0], cache

        x_RD = embed(decoder.embedding[...], tokens_B, numerics=self.spec.served.numerics)
        x_RD, cache = _through(decoder, layer, x_RD, cache)
        return cache, _logits(decoder, x_RD)

    def _angles(self, positions_T: Int[Array, " T"]) -> Angles:
        return angles(self.spec.model, seq_len=self.spec.workload.seq_len, positions_T=positions_T)


@dataclass(frozen=True)
class Prefill(Decode):
    """The prompt's forward pass, as in training, into an empty cache."""

    def __call__(  # type: ignore[override]
        self, params: nnx.State, cache: Cache, tokens_BT: Int[Array, "B T"]
    ) -> tuple[Cache, Float[Array, "B V"]]:
        """Fill the cache group by group of sequences, and return it with the logits of the token after the prompt."""
        decoder: Decoder = nnx.merge(self.graph, params)
        size = group_size(*tokens_BT.shape, tensor=lax.axis_size(TENSOR))
        groups = tokens_BT.reshape(-1, size, tokens_BT.shape[1])

        def one(cache: Cache, operands: tuple[Array, Array]) -> tuple[Cache, Array]:
            first, tokens_bT = operands
            return self._group(decoder, cache, tokens_bT, first=first)

        cache, logits = lax.scan(one, cache, (jnp.arange(len(groups)) * size, groups))
        return cache, logits.reshape(-1, logits.shape[-1])

    def _group(
        self, decoder: Decoder, cache: Cache, tokens_bT: Int[Array, "b T"], *, first: Int[Array, ""]
    ) -> tuple[Cache, Float[Array, "b V"]]:
        """Prefill one group of sequences; ``first`` is the index of its first sequence."""
        spec = self.spec.served
        rope = self._angles(jnp.arange(tokens_bT.shape[1]))

        def layer(module: Layer, x_RD: Array, cache: Cache, number: Array) -> tuple[Array, Cache]:
            q_bTNH, kv_2bTKH = module.attention.heads(x_RD, rope)
            cache = write(cache, kv_2bTKH, Place(number, first, 0))
            return module.joined(x_RD, module.attention.output(attend(q_bTNH, kv_2bTKH, spec=spec)))[0], cache

        x_RD = embed(decoder.embedding[...], tokens_bT.reshape(-1), numerics=spec.numerics)
        x_RD, cache = _through(decoder, layer, x_RD, cache)
        return cache, _logits(decoder, _last(x_RD, tokens_bT.shape[0]))


def group_size(sequences: int, prompt: int, *, tensor: int) -> int:
    """Sequences in a group of prefill: the largest divisor of ``sequences`` with at most ``PREFILL_TOKENS`` tokens.

    At least one sequence per tensor rank, however long the prompt.

    >>> group_size(32, 256, tensor=1), group_size(32, 4096, tensor=2), group_size(12, 512, tensor=1)
    (8, 2, 4)
    """
    fitting = [n for n in range(tensor, sequences + 1, tensor) if sequences % n == 0 and n * prompt <= PREFILL_TOKENS]
    return max(fitting, default=tensor)


def _through(decoder: Decoder, layer: LayerOf, x_RD: Array, cache: Cache) -> tuple[Array, Cache]:
    """Apply all layers in order."""
    graph, shards = nnx.split(decoder.layers)

    def one(carry: tuple[Array, Cache], operands: tuple[Array, nnx.State]) -> tuple[tuple[Array, Cache], None]:
        number, shard = operands
        return layer(nnx.merge(graph, shard), *carry, number), None

    return lax.scan(one, (x_RD, cache), (jnp.arange(cache.shape[0]), shards))[0]


def _last(x_RD: Float[Array, "rows D"], sequences: int) -> Float[Array, "R D"]:
    """Rows of each sequence's last token, split over tensor as in a decode step."""
    own = sequences // lax.axis_size(TENSOR)
    x_BD = all_gather(x_RD, TENSOR).reshape(sequences, -1, x_RD.shape[-1])[:, -1]
    return lax.dynamic_slice_in_dim(x_BD, lax.axis_index(TENSOR) * own, own)


def _logits(decoder: Decoder, x_RD: Float[Array, "R D"]) -> Float[Array, "B V"]:
    spec = decoder.spec
    h_RD = rms_norm(x_RD, decoder.norm[...], eps=spec.model.norm_eps)
    head = decoder.embedding if decoder.head is None else decoder.head
    return logits_of(h_RD, head[...], numerics=spec.numerics)


def zeros(spec: SampleSpec) -> jax.Array:
    """An empty cache over all devices."""
    return jnp.zeros(spec.cache_shape, spec.cache_dtype)
