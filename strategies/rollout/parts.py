"""The parts of a rollout's programs: prefill, one decode step, and the loop of them; functions for ``jit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from strategies.parallel.mesh import BATCH_AXES, TENSOR
from strategies.rollout.cache import CACHE, ROWS, Cache
from strategies.rollout.decode import Decode, Prefill
from strategies.rollout.next_token import Chosen, draws, greedy, sampled
from strategies.rollout.parameters import graph_of
from strategies.rollout.sample_spec import SampleSpec


@dataclass(frozen=True)
class Parts:
    """Functions inside ``jit``, on the serving mesh."""

    spec: SampleSpec
    mesh: Mesh
    placed: nnx.State

    @cached_property
    def _prefill_graph(self) -> Any:
        return graph_of(self.spec.served)[0]

    @cached_property
    def _decode_graph(self) -> Any:
        return graph_of(self.spec.decoding)[0]

    def logits(
        self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], position: Int[Array, ""]
    ) -> tuple[Cache, Float[Array, "B V"]]:
        """Run one decode step that reads the whole cache."""
        body = Decode(self.spec, self._decode_graph, self.spec.workload.seq_len)
        mapped = self._map(body, (self.placed, CACHE, ROWS, P()), (CACHE, P(BATCH_AXES, TENSOR)))
        made: tuple[Cache, Array] = mapped(params, cache, tokens_B, position)
        return made

    def prefill(
        self, params: nnx.State, cache: Cache, prompts_BT: Int[Array, "B T"], lengths_B: Int[Array, " B"] | None = None
    ) -> Cache:
        """Write the prompts into the cache."""
        given = (params, cache, prompts_BT) + (() if lengths_B is None else (lengths_B,))
        mapped = self._map(Prefill(self.spec, self._prefill_graph), (self.placed, CACHE, ROWS, ROWS)[: len(given)], CACHE)
        made: Cache = mapped(*given)
        return made

    def step(
        self,
        params: nnx.State,
        cache: Cache,
        tokens_B: Int[Array, " B"],
        position: Int[Array, ""],
        key: Array,
        length: int | None = None,
    ) -> tuple[Cache, Chosen]:
        """Run one decode step that reads ``length`` slots, all by default, and choose the next tokens."""
        body = Decode(self.spec, self._decode_graph, length or self.spec.workload.seq_len)

        def chosen(params: nnx.State, cache: Cache, tokens_B: Array, position: Array, key: Array) -> tuple[Cache, Chosen]:
            cache, logits_UV = body(params, cache, tokens_B, position)
            return cache, self._chosen(logits_UV, position, key)

        mapped = self._map(chosen, (self.placed, CACHE, ROWS, P(), P()), (CACHE, ROWS))
        made: tuple[Cache, Chosen] = mapped(params, cache, tokens_B, position, key)
        return made

    def _chosen(self, logits_UV: Float[Array, "U V"], position: Int[Array, ""], key: Array) -> Chosen:
        temperature = self.spec.workload.temperature
        if temperature == 0:
            return greedy(logits_UV)
        draws_U = draws(key, position, own=logits_UV.shape[0])
        return sampled(logits_UV, draws_U, temperature=temperature)

    def loop(self, params: nnx.State, cache: Cache, tokens_B: Int[Array, " B"], key: Array) -> tuple[Cache, Chosen]:
        """Generate all tokens, B G; each length of the cache has a loop of its own."""
        steps, made, first = self.spec.steps, [], self.spec.steps[0]
        for length in self.spec.lengths:

            def one(carry: tuple[Cache, Array], position: Array, length: int = length) -> tuple[tuple[Cache, Array], Chosen]:
                cache, chosen = self.step(params, *carry, position, key, length)
                return (cache, chosen.tokens_U), chosen

            (cache, tokens_B), found = lax.scan(one, (cache, tokens_B), jnp.arange(first, min(length, steps.stop)))
            made.append(found)
            first = length
        return cache, jax.tree.map(lambda *parts: jnp.concatenate(parts).T, *made)

    def _map(self, body: Callable[..., Any], given: tuple[Any, ...], made: Any) -> Any:
        def exact(*arguments: Any) -> Any:
            with jax.default_matmul_precision("highest" if self.spec.workload.precision == "fp32" else "default"):
                return body(*arguments)

        return jax.shard_map(exact, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)
