"""Context schemes: how queries on one rank get to see keys and values on all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import jax
from jaxtyping import Array, Float

from lcplan.strategy import Scheme
from lcplan.strategy.scopes import ATTENTION
from strategies.inputs.step_spec import StepSpec
from strategies.kernels import chunk_kernel
from strategies.kernels.interface import ChunkKernel
from strategies.schemes.all_gather import all_gather_attention
from strategies.schemes.documents import Documents
from strategies.schemes.grouped_ring import grouped_ring_attention, grouped_window_attention
from strategies.schemes.interface import AttentionCall, SchemeProgram
from strategies.schemes.ring import ring_attention
from strategies.schemes.ulysses import ulysses_attention
from strategies.schemes.window import window_attention

SCHEME_PROGRAMS: Mapping[Scheme, SchemeProgram] = MappingProxyType(
    {
        "ring": SchemeProgram(ring_attention, window_attention),
        "ring-zigzag": SchemeProgram(ring_attention, window_attention),
        "all-gather": SchemeProgram(all_gather_attention, window_attention),
        "ulysses": SchemeProgram(ulysses_attention, ulysses_attention),
        "ulysses-ring": SchemeProgram(grouped_ring_attention, grouped_window_attention),
    }
)
"""The programs of each scheme; ``lcplan.strategy.schemes`` has its facts, ``strategies.schemes.layout`` the order of tokens."""


def attend(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, spec: StepSpec, documents: Documents = None
) -> Float[Array, "B T N H"]:
    """Causal attention over the whole sequence, inside ``documents`` and in a window, by the strategy's scheme.

    Inside ``shard_map``: all lengths are local.
    """
    kernel = chunk_kernel(spec.kernel, block=spec.strategy.attention_block, window=spec.window)
    return attend_with(q, kv, kernel=kernel, spec=spec, documents=documents)


@jax.named_scope(ATTENTION)
def attend_with(
    q: Float[Array, "B T N H"],
    kv: Float[Array, "2 B T K H"],
    *,
    kernel: ChunkKernel,
    spec: StepSpec,
    documents: Documents = None,
) -> Float[Array, "B T N H"]:
    """The same by a given ``kernel``, which has the window of ``spec``."""
    program = SCHEME_PROGRAMS[spec.strategy.scheme]
    attention = program.full if spec.window is None else program.windowed
    return attention(q, kv, call=AttentionCall(spec, kernel, documents))
