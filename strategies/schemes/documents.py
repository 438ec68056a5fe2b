"""Documents of packed sequences: which one each token is of, for the tokens of every rank.

Ids are all that a chunk's kernel needs to know of another rank's tokens, so they are gathered once a microbatch, four bytes
a token, and do not travel with keys and values. Only whether two ids are equal matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from strategies.kernels.interface import Segments
from strategies.kernels.tiles import may_share
from strategies.layers.rope import Angles
from strategies.parallel.collectives import all_gather
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.mesh import CONTEXT
from strategies.parallel.ranks import axis_size, is_alone

T = TypeVar("T")

Documents = Int[Array, "C B T"] | None
"""Ids by the place of the chunk in the ring (or of the context rank); None: every sequence is one document."""


class TokenFacts(NamedTuple):
    """Positions and documents of the tokens, as attention needs them."""

    rope: Angles
    documents: Documents = None


def gathered(documents_BT: Int[Array, "B T"] | None) -> Documents:
    """Every context rank's ids. Inside ``shard_map``: all lengths are local.

    A single rank gets the ids of whole sequences: with copies of its own ids for the others, no kernel could skip a chunk.
    """
    if documents_BT is None:
        return None
    return cut(documents_BT, axis_size(CONTEXT)) if is_alone() else all_gather(documents_BT[None], CONTEXT)


def cut(documents_BT: Int[Array, "B CT"] | None, ranks: int) -> Documents:
    """The same from the ids of whole sequences."""
    if documents_BT is None:
        return None
    return jnp.moveaxis(documents_BT.reshape(documents_BT.shape[0], ranks, -1), 1, 0)


def by_group(documents: Documents, members: int) -> Documents:
    """Ids of the chunks that groups of ``members`` neighbours hold together."""
    if documents is None or members == 1:
        return documents
    C, B, T = documents.shape
    return jnp.moveaxis(documents.reshape(C // members, members, B, T), 1, 2).reshape(C // members, B, members * T)


def staged(documents: Documents, anchor: Array) -> Documents:
    """``documents`` as if they depended on ``anchor`` (see ``strategies.parallel.compute_in_place``)."""
    return None if documents is None else staged_with(documents, anchor)


def between(
    documents: Documents, queries: Int[Array, ""] | int, keys: Int[Array, ""] | int, *, spans: tuple[slice, slice] | None = None
) -> Segments | None:
    """Ids of the chunk in place ``queries`` and of that in place ``keys``; of ``spans`` of the two, where given."""
    if documents is None:
        return None
    q_BT, kv_BS = documents[queries], documents[keys]
    return Segments(q_BT[:, spans[0]], kv_BS[:, spans[1]]) if spans else Segments(q_BT, kv_BS)


def where_shared(segments: Segments | None, seen: Callable[[], T], nothing: T) -> T:
    """Return ``seen()``, or ``nothing`` if no query shares a document with any key in any sequence.

    So all kernels leave out whole chunks, those too that leave out no block inside one.
    """
    if segments is None:
        return seen()
    return lax.cond(may_share(segments.q, segments.kv).any(), seen, lambda: nothing)
