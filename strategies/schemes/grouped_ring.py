"""Exchange in groups: neighbours exchange heads, and a ring over the groups attends to the chunks of the others.

Of a windowed layer halos go from group to group in place of the ring.

Inside ``shard_map``: all lengths are local; E ranks exchange, S = E T.
"""

from __future__ import annotations

from functools import partial

from jaxtyping import Array, Float

from strategies.schemes.exchange import Inner, exchanged
from strategies.schemes.interface import AttentionCall
from strategies.schemes.ring import ring_backward, ring_forward
from strategies.schemes.window import Halos, window_backward, window_forward


def grouped_ring_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries by exchanges within a group and a ring over the groups."""
    pattern = call.pattern
    inner = Inner(partial(ring_forward, pattern=pattern), partial(ring_backward, pattern=pattern))
    return exchanged(q, kv, inner=inner, ranks=pattern.route.stride, documents=call.documents)


def grouped_window_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """The same within the kernel's window: groups bring each other's halos in place of a ring."""
    halos, kernel = Halos.of(call.spec), call.kernel
    inner = Inner(partial(window_forward, kernel=kernel, halos=halos), partial(window_backward, kernel=kernel, halos=halos))
    return exchanged(q, kv, inner=inner, ranks=halos.route.stride, documents=call.documents)
