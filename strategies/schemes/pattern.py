"""The chunk-kernel calls that attend to another rank's keys, by the scheme's layout.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from lcplan.strategy import SCHEME_FACTS, Scheme
from strategies.kernels.interface import Attended, ChunkKernel, Gradients
from strategies.schemes.documents import Documents, between, where_shared
from strategies.schemes.route import Route

Part = Literal["all", "first half", "second half"]


@dataclass(frozen=True)
class View:
    """The queries that see anything of another rank's chunk, and the keys that they all see whole."""

    queries: Part
    keys: Part


@dataclass(frozen=True)
class Pattern:
    """Visible parts of the chunks of earlier and of later ranks; None: no part."""

    kernel: ChunkKernel
    before: View | None
    after: View | None
    route: Route

    def forward(
        self,
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B T K H"],
        *,
        owner: Int[Array, ""],
        documents: Documents = None,
    ) -> Attended:
        """Attention to the chunk of ``owner``: zeros and a log-sum-exp of minus infinity for queries that see nothing."""

        def attend(view: View | None) -> Attended:
            B, T, N, _ = q.shape
            nothing = Attended(jnp.zeros_like(q), jnp.full((B, N, T), -jnp.inf, jnp.float32))
            if view is None:
                return nothing
            queries, keys = _span(view.queries, T), _span(view.keys, T)
            segments = between(documents, self.route.place(), owner, spans=(queries, keys))

            def seen() -> Attended:
                o, lse = self.kernel.forward(q[:, queries], kv[:, :, keys], mask="full", segments=segments)
                return Attended(nothing.o.at[:, queries].set(o), nothing.lse.at[:, :, queries].set(lse))

            return where_shared(segments, seen, nothing)

        return self._choose(attend, owner)

    def backward(
        self,
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B T K H"],
        *,
        attended: Attended,
        do: Float[Array, "B T N H"],
        owner: Int[Array, ""],
        documents: Documents = None,
    ) -> Gradients:
        """This rank's share of the gradients from the chunk of ``owner``: zeros where nothing was seen."""

        def attend(view: View | None) -> Gradients:
            nothing = Gradients(jnp.zeros_like(q), jnp.zeros_like(kv))
            if view is None:
                return nothing
            queries, keys = _span(view.queries, q.shape[1]), _span(view.keys, q.shape[1])
            segments = between(documents, self.route.place(), owner, spans=(queries, keys))

            def seen() -> Gradients:
                own = Attended(attended.o[:, queries], attended.lse[:, :, queries])
                dq, dkv = self.kernel.backward(
                    q[:, queries], kv[:, :, keys], attended=own, do=do[:, queries], mask="full", segments=segments
                )
                return Gradients(nothing.dq.at[:, queries].set(dq), nothing.dkv.at[:, :, keys].set(dkv))

            return where_shared(segments, seen, nothing)

        return self._choose(attend, owner)

    def _choose(self, attend: Callable[[View | None], Any], owner: Int[Array, ""]) -> Any:
        """Only the call that this rank needs runs."""
        return lax.cond(owner < self.route.place(), lambda: attend(self.before), lambda: attend(self.after))


def pattern_of(scheme: Scheme, kernel: ChunkKernel, *, route: Route) -> Pattern:
    """Return the pattern of a scheme's layout (derived in ``strategies.schemes.layout``)."""
    if SCHEME_FACTS[scheme].balanced:
        return Pattern(kernel, before=View("all", "first half"), after=View("second half", "all"), route=route)
    return Pattern(kernel, before=View("all", "all"), after=None, route=route)


def _span(part: Part, length: int) -> slice:
    return {"all": slice(0, length), "first half": slice(0, length // 2), "second half": slice(length // 2, length)}[part]
