"""Windowed attention by halos: every rank brings the tokens before each run of the sequence that it holds, and attends once.

A rank of a contiguous layout holds one run, whose halo is the end of the run before it, or whole runs and the end of one
farther off. A rank of a zigzag holds two half chunks: the halo of the first is the end of the first half of the rank before,
that of the second the end of the second half of the rank after (of the last rank: of its own first half). Where neighbours
have exchanged heads, each holds the runs of their group, and halos go from group to group. The first ranks receive the
sequence's end as their halo and ignore it: they attend to fewer keys. The halo is a residual that no remat policy names:
the backward pass fetches it again, and its gradients return by permutes in the opposite direction. Ids of documents are
those of all ranks already, so a halo's are looked up.

Inside ``shard_map``: all lengths are local; C context ranks, or groups of them that exchanged heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from lcplan.spec.windows import halo_pieces
from strategies.inputs.step_spec import StepSpec
from strategies.kernels.interface import Attended, ChunkKernel, Gradients, Segments
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.remat import name
from strategies.schemes.documents import Documents, staged
from strategies.schemes.interface import AttentionCall
from strategies.schemes.layout import zigzag
from strategies.schemes.route import Route

Result = TypeVar("Result")


@dataclass(frozen=True)
class Halos:
    """How many tokens a run needs of each run before it, the nearest first, and whether a rank holds two half chunks."""

    pieces: tuple[int, ...]
    halves: bool
    route: Route

    @classmethod
    def of(cls, spec: StepSpec) -> Halos:
        """The halos of a windowed layer in a strategy's layout."""
        assert spec.window is not None, "a layer without a window has no halo"
        strategy = spec.strategy
        groups = strategy.mesh.context // strategy.ulysses
        halves = zigzag(strategy)
        runs = 2 if halves else 1
        pieces = halo_pieces(spec.window, chunk=spec.local_seq_len * strategy.ulysses // runs, chunks=groups * runs)
        return cls(pieces, halves, Route(strategy.ulysses))

    def runs(self, x: Shaped[Array, "B T ..."], *, axis: int) -> list[Array]:
        """The tokens of each run."""
        return jnp.split(x, 2, axis=axis) if self.halves else [x]

    def fetched(self, kv: Float[Array, "2 B T K H"]) -> list[Float[Array, "2 B S K H"]]:
        """Keys and values of each run behind its halo."""
        runs = self.runs(kv, axis=2)
        halos = self._before(lambda far, run, tokens: self.route.shift(_end(runs[run], tokens, axis=2), far))
        return _joined(halos, runs, axis=2)

    def segments(self, documents: Documents, place: Int[Array, ""]) -> list[Segments | None]:
        """Ids of each run's queries, and of these behind those of its halo."""
        if documents is None:
            return [None] * (2 if self.halves else 1)

        def end(far: int, run: int, tokens: int) -> Int[Array, "B h"]:
            theirs = self.runs(documents[(place - far) % self.route.ranks()], axis=1)
            return _end(theirs[run], tokens, axis=1)

        own = self.runs(documents[place], axis=1)
        return [Segments(*pair) for pair in zip(own, _joined(self._before(end), own, axis=1), strict=True)]

    def _before(self, end: Callable[[int, int, int], Array]) -> list[list[Array]]:
        """The halo of each run, the farthest piece first; ``end`` gives the last tokens of a run of the rank so far before."""
        if not self.halves:
            return [[end(far, 0, tokens) for far, tokens in reversed([*enumerate(self.pieces, 1)])]]
        if not self.pieces:
            return [[], []]
        (tokens,) = self.pieces
        return [[end(1, 0, tokens)], [jnp.where(self._is_last(), end(0, 0, tokens), end(-1, 1, tokens))]]

    def returned(self, gradients: list[Float[Array, "2 B S K H"]]) -> Float[Array, "2 B T K H"]:
        """Transpose ``fetched``: sum each run's own gradients and those returned from halos in fp32."""
        total, shift = sum(self.pieces), self.route.shift
        own = [run[:, :, total:].astype(jnp.float32) for run in gradients]
        ends = list(accumulate(self.pieces, lambda end, tokens: end - tokens, initial=total))
        halos = [[run[:, :, low:high] for high, low in pairwise(ends)] for run in gradients]
        if not self.halves:
            for far, piece in enumerate(halos[0], 1):
                own[0] = _added(own[0], shift(piece, -far))
            return own[0].astype(gradients[0].dtype)
        if self.pieces:
            (first,), (second,) = halos
            last, nothing = self._is_last(), jnp.zeros_like(second)
            own[0] = _added(_added(own[0], shift(first, -1)), jnp.where(last, second, nothing))
            own[1] = _added(own[1], shift(jnp.where(last, nothing, second), 1))
        return jnp.concatenate(own, axis=2).astype(gradients[0].dtype)

    def skipped(self, run: int) -> tuple[int, ...]:
        """Count the halo's tokens before the start of the sequence, by the number of earlier ranks."""
        if run == 1:
            return (0,)
        pieces = self.pieces[:1] if self.halves else self.pieces
        return tuple(accumulate(pieces, lambda left, tokens: left - tokens, initial=sum(pieces)))

    def _is_last(self) -> Bool[Array, ""]:
        return self.route.place() == self.route.ranks() - 1


def _end(x: Shaped[Array, "B T ..."], tokens: int, *, axis: int) -> Shaped[Array, "B h ..."]:
    return lax.slice_in_dim(x, x.shape[axis] - tokens, x.shape[axis], axis=axis)


def _joined(halos: list[list[Array]], runs: list[Array], *, axis: int) -> list[Array]:
    return [jnp.concatenate([*halo, run], axis=axis) if halo else run for halo, run in zip(halos, runs, strict=True)]


def _added(own: Float[Array, "2 B T K H"], returned: Float[Array, "2 B h K H"]) -> Float[Array, "2 B T K H"]:
    """Add the returned gradients to the last tokens."""
    return own.at[:, :, own.shape[2] - returned.shape[2] :].add(returned.astype(own.dtype))


def window_attention(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
) -> Float[Array, "B T N H"]:
    """Causal attention of the local queries within the kernel's window, and inside their documents."""
    kernel, halos = call.kernel, Halos.of(call.spec)
    backward = partial(window_backward, kernel=kernel, halos=halos)
    return with_backward(partial(window_forward, kernel=kernel, halos=halos), backward)(q, kv, call.documents)


def window_forward(
    q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], documents: Documents, *, kernel: ChunkKernel, halos: Halos
) -> tuple[Array, Any]:
    """Return the output and the residuals of ``window_backward``."""
    place, documents = staged_with(halos.route.place(), q), staged(documents, q)
    fetched, qs, ids = halos.fetched(kv), halos.runs(q, axis=1), halos.segments(documents, place)

    def attend(run: int, skipped: int) -> Attended:
        return kernel.forward(qs[run], fetched[run][:, :, skipped:], mask="causal", segments=_from(ids[run], skipped))

    parts = [_chosen(partial(attend, run), halos.skipped(run), place) for run in range(len(qs))]
    o, lse = jnp.concatenate([part.o for part in parts], axis=1), jnp.concatenate([part.lse for part in parts], axis=2)
    attended = Attended(name(o, "attention_output"), name(lse, "lse"))
    return attended.o, (q, fetched, attended, place, documents)


def window_backward(
    residuals: Any, do: Float[Array, "B T N H"], *, kernel: ChunkKernel, halos: Halos
) -> tuple[Array, Array, None]:
    """Return gradients of queries, and of keys and values; documents have no gradient."""
    q, fetched, attended, place, documents = residuals
    qs, dos, os = (halos.runs(x, axis=1) for x in (q, do, attended.o))
    lses, ids = halos.runs(attended.lse, axis=2), halos.segments(staged(documents, do), place)

    def attend(run: int, skipped: int) -> Gradients:
        seen, keys = Attended(os[run], lses[run]), fetched[run][:, :, skipped:]
        segments = _from(ids[run], skipped)
        dq, dkv = kernel.backward(qs[run], keys, attended=seen, do=dos[run], mask="causal", segments=segments)
        return Gradients(dq, jnp.pad(dkv, ((0, 0), (0, 0), (skipped, 0), (0, 0), (0, 0))))

    parts = [_chosen(partial(attend, run), halos.skipped(run), place) for run in range(len(qs))]
    return jnp.concatenate([part.dq for part in parts], axis=1), halos.returned([part.dkv for part in parts]), None


def _from(segments: Segments | None, skipped: int) -> Segments | None:
    """Without the ids of the halo's first tokens."""
    return None if segments is None else Segments(segments.q, segments.kv[:, skipped:])


def _chosen(attend: Callable[[int], Result], skipped: tuple[int, ...], place: Int[Array, ""]) -> Result:
    """Only the call that this rank needs runs."""
    branches = [partial(attend, tokens) for tokens in skipped]
    return lax.switch(jnp.minimum(place, len(branches) - 1), branches) if len(branches) > 1 else branches[0]()
