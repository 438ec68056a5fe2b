"""Prefill and decode with the train step's decoder. Inside ``shard_map``: all lengths are local.

B sequences of this device's data x fsdp rank, one new token each; R = B / tensor of their rows in its residual stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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
from strategies.parallel.mesh import TENSOR
from strategies.rollout.cache import Cache, Place, Stack, write_prompts, write_token
from strategies.rollout.cached_attention import Reader
from strategies.rollout.layer_stacks import read_through, write_through
from strategies.rollout.next_token import logits_of
from strategies.rollout.sample_spec import SampleSpec
from strategies.schemes import attend

PREFILL_TOKENS = 2048
"""Prompt tokens of a device that go through a layer at a time: enough for efficient products, few for their memory."""


@dataclass(frozen=True)
class Decode:
    """Logits of the next token of every sequence, and the cache with this one; attention reads ``length`` slots."""

    spec: SampleSpec
    graph: Any
    length: int

    def __call__(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""]
    ) -> tuple[Cache, Float[Array, "B V"]]:
        """Run one step: ``tokens_B`` take the slot ``position``, and the cache has all tokens before them."""
        decoder: Decoder = nnx.merge(self.graph, params)
        reader = Reader(position, cache.padding_B, self.length, self.spec.cache_kernel)
        rope = rope_of(self.spec, position - cache.padding_B)

        def layer(module: Layer, x_RD: Array, stack: Stack, number: Array) -> tuple[Array, Array]:
            q_1BNH, kv_21BKH = module.attention.heads(x_RD, rope)
            new_2BKH = kv_21BKH[:, 0]
            batch, kv_heads, head_dim = new_2BKH.shape[1:]
            o = reader.attend(q_1BNH.reshape(batch, kv_heads, -1, head_dim), new_2BKH, stack, layer=number)
            return module.joined(x_RD, module.attention.output(o.reshape(q_1BNH.shape)))[0], new_2BKH

        x_RD = embed(decoder.embedding[...], tokens_B, numerics=self.spec.served.numerics)
        x_RD, new = read_through(decoder, layer, x_RD, cache.stacks)
        written = tuple(write_token(stack, kv, position) for stack, kv in zip(cache.stacks, new, strict=True))
        return replace(cache, stacks=written), _logits(decoder, x_RD)


@dataclass(frozen=True)
class Prefill:
    """The prompts' forward pass, as in training, into an empty cache."""

    spec: SampleSpec
    graph: Any

    def __call__(
        self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"], lengths_B: Int[Array, " B"] | None = None
    ) -> Cache:
        """Fill the cache group by group of sequences; ``lengths_B`` are the tokens of each prompt, all of T by default."""
        decoder: Decoder = nnx.merge(self.graph, params)
        batch, length = prompts_BT.shape
        padding_B = jnp.zeros_like(cache.padding_B) if lengths_B is None else length - lengths_B
        size = group_size(batch, length, tensor=lax.axis_size(TENSOR))
        rope = rope_of(self.spec, jnp.arange(length))

        def one(stacks: tuple[Stack, ...], operands: tuple[Array, Array, Array]) -> tuple[tuple[Stack, ...], None]:
            first, tokens_bT, padding_b = operands
            write = partial(write_prompts, padding_b=None if lengths_B is None else padding_b)

            def layer(module: Layer, x_RD: Array, stack: Stack, number: Array) -> tuple[Array, Stack]:
                q_bTNH, kv_2bTKH = module.attention.heads(x_RD, rope)
                stack = write(stack, kv_2bTKH, Place(number, first))
                o_bTNH = attend(q_bTNH, kv_2bTKH, spec=module.attention.spec)
                return module.joined(x_RD, module.attention.output(o_bTNH))[0], stack

            x_RD = embed(decoder.embedding[...], tokens_bT.reshape(-1), numerics=self.spec.served.numerics)
            return write_through(decoder, layer, x_RD, stacks)[1], None

        groups = prompts_BT.reshape(-1, size, length), padding_B.reshape(-1, size)
        stacks, _ = lax.scan(one, cache.stacks, (jnp.arange(batch // size) * size, *groups))
        return Cache(stacks, padding_B)


def rope_of(spec: SampleSpec, positions_T: Int[Array, " T"]) -> Angles:
    """Cosine and sine of the tokens' positions in their sequences."""
    return angles(spec.model, seq_len=spec.workload.seq_len, positions_T=positions_T)


def group_size(sequences: int, prompt: int, *, tensor: int) -> int:
    """Sequences in a group of prefill: the largest divisor of ``sequences`` with at most ``PREFILL_TOKENS`` tokens.

    At least one sequence per tensor rank, however long the prompt.

    >>> group_size(32, 256, tensor=1), group_size(32, 4096, tensor=2), group_size(12, 512, tensor=1)
    (8, 2, 4)
    """
    fitting = [n for n in range(tensor, sequences + 1, tensor) if sequences % n == 0 and n * prompt <= PREFILL_TOKENS]
    return max(fitting, default=tensor)


def _logits(decoder: Decoder, x_RD: Float[Array, "R D"]) -> Float[Array, "B V"]:
    spec = decoder.spec
    h_RD = rms_norm(x_RD, decoder.norm[...], eps=spec.model.norm_eps)
    head = decoder.embedding if decoder.head is None else decoder.head
    return logits_of(h_RD, head[...], numerics=spec.numerics)


def empty_cache(spec: SampleSpec) -> Cache:
    """A cache of no token, over all devices."""
    stacks = []
    for shape in spec.stack_shapes:
        kv = (jnp.zeros(shape, spec.cache_dtype) for _ in range(2))
        scales = (jnp.zeros(shape[:-1], jnp.float32) for _ in range(2)) if spec.workload.kv_dtype == "fp8" else ()
        stacks.append(Stack(*kv, *scales))
    return Cache(tuple(stacks), jnp.zeros(spec.workload.batch, jnp.int32))


def empty_cache_shapes(spec: SampleSpec) -> Cache:
    """The shapes of ``empty_cache``."""
    return jax.eval_shape(lambda: empty_cache(spec))
