"""Windowed attention by halos: every rank brings the tokens before each run of the sequence that it holds, and attends once.

A rank of a contiguous layout holds one run, whose halo is the end of the run before it, or whole runs and the end of one
farther off. A rank of a zigzag holds two half chunks: the halo of the first is the end of the first half of the rank before,
that of the second the end of the second half of the rank after (of the last rank: of its own first half). What comes round to
the first ranks from the sequence's end is not looked at: they attend to fewer keys. The halo is a residual that no remat
policy names: the backward pass brings it again, and its gradients go home by permutes the other way.

Inside ``shard_map``: all lengths are local; C context ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from lcplan.windows import halo_pieces
from strategies.collectives import shift
from strategies.kernels.interface import Attended, ChunkKernel, Gradients
from strategies.mesh import CONTEXT
from strategies.ranks import axis_index, axis_size
from strategies.remat import name
from strategies.schemes.layout import ZIGZAG_SCHEMES
from strategies.spec import StepSpec
from strategies.staging import staged_with
from strategies.vjp import with_backward

Result = TypeVar("Result")


@dataclass(frozen=True)
class Halos:
    """How many tokens a run needs of each run before it, the nearest first, and whether a rank holds two half chunks."""

    pieces: tuple[int, ...]
    halves: bool

    @classmethod
    def of(cls, spec: StepSpec, window: int) -> Halos:
        """The halos of a strategy's layout."""
        ranks = spec.strategy.mesh.context
        halves = spec.strategy.scheme in ZIGZAG_SCHEMES and ranks > 1
        runs = 2 if halves else 1
        return cls(halo_pieces(window, chunk=spec.local_seq_len // runs, chunks=ranks * runs), halves)

    def runs(self, x: Float[Array, "B T ..."], *, axis: int) -> list[Array]:
        """The tokens of each run."""
        return jnp.split(x, 2, axis=axis) if self.halves else [x]

    def brought(self, kv: Float[Array, "2 B T K H"]) -> list[Float[Array, "2 B S K H"]]:
        """Keys and values of each run behind its halo."""
        runs = self.runs(kv, axis=2)
        if not self.pieces:
            return runs
        if not self.halves:
            halo = [shift(_end(kv, tokens), CONTEXT, by=far) for far, tokens in enumerate(self.pieces, 1)]
            return [jnp.concatenate([*reversed(halo), kv], axis=2)]
        ends = [_end(run, self.pieces[0]) for run in runs]
        after = jnp.where(_is_last(), ends[0], shift(ends[1], CONTEXT, by=-1))
        return [jnp.concatenate(pair, axis=2) for pair in zip((shift(ends[0], CONTEXT), after), runs, strict=True)]

    def home(self, gradients: list[Float[Array, "2 B S K H"]]) -> Float[Array, "2 B T K H"]:
        """The transpose of ``brought``: each run's own gradients and what comes back from halos, summed in fp32."""
        total = sum(self.pieces)
        own = [run[:, :, total:].astype(jnp.float32) for run in gradients]
        ends = list(accumulate(self.pieces, lambda end, tokens: end - tokens, initial=total))
        halos = [[run[:, :, low:high] for high, low in pairwise(ends)] for run in gradients]
        if not self.halves:
            for far, piece in enumerate(halos[0], 1):
                own[0] = _added(own[0], shift(piece, CONTEXT, by=-far))
            return own[0].astype(gradients[0].dtype)
        if self.pieces:
            (first,), (second,) = halos
            last, nothing = _is_last(), jnp.zeros_like(second)
            own[0] = _added(_added(own[0], shift(first, CONTEXT, by=-1)), jnp.where(last, second, nothing))
            own[1] = _added(own[1], shift(jnp.where(last, nothing, second), CONTEXT))
        return jnp.concatenate(own, axis=2).astype(gradients[0].dtype)

    def skipped(self, run: int) -> tuple[int, ...]:
        """Tokens of the halo that lie before the sequence, by how many ranks come before this one."""
        if run == 1:
            return (0,)
        pieces = self.pieces[:1] if self.halves else self.pieces
        return tuple(accumulate(pieces, lambda left, tokens: left - tokens, initial=sum(pieces)))


def _end(kv: Float[Array, "2 B T K H"], tokens: int) -> Float[Array, "2 B h K H"]:
    return kv[:, :, kv.shape[2] - tokens :]


def _added(own: Float[Array, "2 B T K H"], back: Float[Array, "2 B h K H"]) -> Float[Array, "2 B T K H"]:
    """What came back is of the last tokens."""
    return own.at[:, :, own.shape[2] - back.shape[2] :].add(back.astype(own.dtype))


def _is_last() -> Bool[Array, ""]:
    return axis_index(CONTEXT) == axis_size(CONTEXT) - 1


def window_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, kernel: ChunkKernel, halos: Halos
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries within the window of ``kernel``."""
    backward = partial(_backward, kernel=kernel, halos=halos)
    return with_backward(partial(_forward, kernel=kernel, halos=halos), backward)(q, kv)


def _forward(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, kernel: ChunkKernel, halos: Halos
) -> tuple[Array, Any]:
    place = staged_with(axis_index(CONTEXT), q)
    brought, qs = halos.brought(kv), halos.runs(q, axis=1)

    def attend(run: int, skipped: int) -> Attended:
        return kernel.forward(qs[run], brought[run][:, :, skipped:], mask="causal")

    parts = [_chosen(partial(attend, run), halos.skipped(run), place) for run in range(len(qs))]
    o, lse = jnp.concatenate([part.o for part in parts], axis=1), jnp.concatenate([part.lse for part in parts], axis=2)
    attended = Attended(name(o, "context"), name(lse, "lse"))
    return attended.o, (q, brought, attended, place)


def _backward(residuals: Any, do: Float[Array, "B T N H"], *, kernel: ChunkKernel, halos: Halos) -> tuple[Array, Array]:
    q, brought, attended, place = residuals
    qs, dos, os = (halos.runs(x, axis=1) for x in (q, do, attended.o))
    lses = halos.runs(attended.lse, axis=2)

    def attend(run: int, skipped: int) -> Gradients:
        seen, keys = Attended(os[run], lses[run]), brought[run][:, :, skipped:]
        dq, dkv = kernel.backward(qs[run], keys, attended=seen, do=dos[run], mask="causal")
        return Gradients(dq, jnp.pad(dkv, ((0, 0), (0, 0), (skipped, 0), (0, 0), (0, 0))))

    parts = [_chosen(partial(attend, run), halos.skipped(run), place) for run in range(len(qs))]
    return jnp.concatenate([part.dq for part in parts], axis=1), halos.home([part.dkv for part in parts])


def _chosen(attend: Callable[[int], Result], skipped: tuple[int, ...], place: Int[Array, ""]) -> Result:
    """Only the call that this rank needs runs."""
    branches = [partial(attend, tokens) for tokens in skipped]
    return lax.switch(jnp.minimum(place, len(branches) - 1), branches) if len(branches) > 1 else branches[0]()
