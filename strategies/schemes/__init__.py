"""Context schemes: how queries on one rank get to see keys and values on all others."""

from __future__ import annotations

from jaxtyping import Array, Float

from strategies.inputs.step_spec import StepSpec
from strategies.kernels import chunk_kernel
from strategies.kernels.interface import ChunkKernel
from strategies.schemes.all_gather import all_gather_attention
from strategies.schemes.documents import Documents
from strategies.schemes.pattern import pattern_of
from strategies.schemes.ring import ring_attention
from strategies.schemes.route import Route
from strategies.schemes.ulysses import ulysses_attention, ulysses_ring_attention, ulysses_window_attention
from strategies.schemes.window import Halos, window_attention


def attend(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, spec: StepSpec, documents: Documents = None
) -> Float[Array, "B T N H"]:
    """Causal attention over the whole sequence, inside ``documents`` and in a window, by the strategy's scheme.

    Inside ``shard_map``: all lengths are local.
    """
    kernel = chunk_kernel(spec.kernel, block=spec.strategy.attention_block, window=spec.window)
    return attend_with(q, kv, kernel=kernel, spec=spec, documents=documents)


def attend_with(
    q: Float[Array, "B T N H"],
    kv: Float[Array, "2 B T K H"],
    *,
    kernel: ChunkKernel,
    spec: StepSpec,
    documents: Documents = None,
) -> Float[Array, "B T N H"]:
    """The same by a given ``kernel``, which has the window of ``spec``."""
    strategy = spec.strategy
    if spec.window is not None and strategy.scheme != "ulysses":
        halos = Halos.of(spec, spec.window)
        windowed = ulysses_window_attention if strategy.ulysses > 1 else window_attention
        return windowed(q, kv, kernel=kernel, halos=halos, documents=documents)
    pattern = pattern_of(strategy.scheme, kernel, route=Route.of(strategy))
    match strategy.scheme:
        case "ulysses":
            return ulysses_attention(q, kv, kernel=kernel, ranks=strategy.mesh.context, documents=documents)
        case "ulysses-ring":
            return ulysses_ring_attention(q, kv, pattern=pattern, documents=documents)
        case "all-gather":
            return all_gather_attention(q, kv, pattern=pattern, documents=documents)
        case "ring" | "ring-zigzag":
            return ring_attention(q, kv, pattern=pattern, documents=documents)
