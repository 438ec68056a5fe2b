"""Every scheme's chunk sequence on one device: output and gradients against plain attention in fp32.

The ranks of a context axis are emulated by ``vmap`` over a named axis, under which permutes, gathers and all-to-alls are
copies inside one array. The scheme's own code runs, with its own backward pass; a kernel gets the chunks of all ranks as one
batch. A rank's choice between two calls becomes both calls and a selection. ``ulysses-ring`` is not here: its exchange is
among groups of an axis, which ``vmap`` does not have; its kernel calls are those of a zigzag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Scheme, Strategy
from one_gpu.card import Card
from strategies.inputs.step_spec import KernelName, StepSpec
from strategies.kernels import chunk_kernel, default_kernel
from strategies.kernels.interface import Attended, ChunkKernel, Gradients, Mask, Segments
from strategies.parallel.mesh import CONTEXT
from strategies.schemes import attend_with
from strategies.schemes.documents import gathered
from strategies.schemes.layout import token_order

NAMES = ("o", "dq", "dk", "dv")
MOST_OF_ROUNDING = 2.0
"""A fused kernel may be so much further from fp32 than blockwise attention in the same bf16."""
MOST_ROUNDING = 0.02
"""And that one no further than this, so that a scheme that is wrong with both kernels is not taken for rounding."""


@dataclass(frozen=True)
class Case:
    """A scheme over so many ranks, perhaps of packed documents, in a window, or with two lanes."""

    scheme: Scheme
    ranks: int
    documents: bool = False
    window_of_chunk: float = 0.0
    """The window, in chunks; 0: none."""
    two_way: bool = False

    @property
    def id(self) -> str:
        """A name."""
        window = f" window={self.window_of_chunk:g}" if self.window_of_chunk else ""
        return f"{self.scheme} x{self.ranks}{' two-way' * self.two_way}{' documents' * self.documents}{window}"


_SCHEMES: tuple[Scheme, ...] = ("ring", "ring-zigzag", "all-gather", "ulysses")
_PLAIN = tuple(Case(scheme, ranks) for ranks in (4, 8) for scheme in _SCHEMES)
CASES = (
    *_PLAIN,
    Case("ring-zigzag", 4, two_way=True),
    *(Case(scheme, 4, documents=True) for scheme in _SCHEMES),
    *(Case(scheme, 4, window_of_chunk=0.4) for scheme in _SCHEMES),
    Case("ring", 8, window_of_chunk=2.3),
    Case("ring-zigzag", 4, documents=True, window_of_chunk=0.4),
)


@dataclass(frozen=True)
class Sizes:
    """One sequence of ``tokens``; query heads, KV heads, features of a head."""

    tokens: int
    heads: int
    kv_heads: int
    head_dim: int


REAL, TINY = Sizes(4096, 8, 2, 128), Sizes(512, 8, 2, 16)


class Operands(NamedTuple):
    """In the sequence's order; ids of documents, or zeros."""

    q: jax.Array
    kv: jax.Array
    do: jax.Array
    ids: jax.Array


def ids(card: Card) -> list[str]:
    """Names of the cases; a few where shapes are tiny."""
    return [case.id for case in ([case for case in CASES if case.ranks == 4][::4] if card.tiny else CASES)]


def run(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """A row for each case as it is done."""
    sizes = TINY if card.tiny else REAL
    kernel = default_kernel(jax.default_backend())
    for case in CASES:
        if case.id in wanted:
            yield row(case, sizes, kernel=kernel)


def row(case: Case, sizes: Sizes, *, kernel: KernelName) -> dict[str, Any]:
    """Relative errors of output and gradients, of ``kernel`` and of blockwise attention, both in bf16."""
    operands = operands_of(case, sizes)
    exact = reference(operands, window=_window(case, sizes))
    rounded = tuple(x.astype(jnp.bfloat16) for x in operands[:3])
    found = {name: emulated(case, sizes, kernel=name)(*rounded, operands.ids) for name in {kernel, "blockwise"}}
    errors, rounding = (_errors(found[name], exact) for name in (kernel, "blockwise"))
    near = [errors[name] <= MOST_OF_ROUNDING * rounding[name] + 1e-6 and rounding[name] <= MOST_ROUNDING for name in NAMES]
    facts = {"kernel": kernel, "tokens": sizes.tokens, "errors": errors, "rounding": rounding, "holds": all(near)}
    return {"id": case.id, **facts}


def emulated(case: Case, sizes: Sizes, *, kernel: KernelName) -> Any:
    """``jax.jit`` of (q, kv, do, ids), all in the sequence's order, to output and gradients by q, k and v."""
    spec = _spec(case, sizes, kernel)
    order = token_order(spec.strategy, seq_len=sizes.tokens)
    back = np.argsort(order)
    chunk = Together(chunk_kernel(kernel, window=spec.window))

    def rank(q: jax.Array, kv: jax.Array, do: jax.Array, own: jax.Array) -> tuple[jax.Array, ...]:
        documents = gathered(own) if case.documents else None
        o, pull = jax.vjp(partial(attend_with, kernel=chunk, spec=spec, documents=documents), q, kv)
        return o, *pull(do)

    def split(x: jax.Array, axis: int) -> jax.Array:
        parts = jnp.take(x, order, axis=axis).reshape(*x.shape[:axis], case.ranks, -1, *x.shape[axis + 1 :])
        return jnp.moveaxis(parts, axis, 0)

    def joined(x: jax.Array, axis: int) -> jax.Array:
        whole = jnp.moveaxis(x, 0, axis)
        return jnp.take(whole.reshape(*whole.shape[:axis], -1, *whole.shape[axis + 2 :]), back, axis=axis)

    def run(q: jax.Array, kv: jax.Array, do: jax.Array, own: jax.Array) -> tuple[jax.Array, ...]:
        every = jax.vmap(rank, axis_name=CONTEXT, axis_size=case.ranks)
        o, dq, dkv = every(split(q, 1), split(kv, 2), split(do, 1), split(own, 1))
        return joined(o, 1), joined(dq, 1), *joined(dkv, 2)

    return jax.jit(run)


@dataclass(frozen=True)
class Together:
    """A chunk kernel whose calls on all emulated ranks are one call with as many times the sequences."""

    kernel: ChunkKernel

    def forward(self, q: jax.Array, kv: jax.Array, *, mask: Mask, segments: Segments | None = None) -> Attended:
        """Output and log-sum-exp over this chunk alone."""

        def call(q: jax.Array, kv: jax.Array, segments: Segments | None) -> Attended:
            return self.kernel.forward(q, kv, mask=mask, segments=segments)

        return _in_one(call)(q, kv, segments)

    def backward(
        self,
        q: jax.Array,
        kv: jax.Array,
        *,
        attended: Attended,
        do: jax.Array,
        mask: Mask,
        segments: Segments | None = None,
    ) -> Gradients:
        """This chunk's share of the gradients."""

        def call(q: jax.Array, kv: jax.Array, segments: Segments | None, attended: Attended, do: jax.Array) -> Gradients:
            return self.kernel.backward(q, kv, attended=attended, do=do, mask=mask, segments=segments)

        return _in_one(call)(q, kv, segments, attended, do)


def _in_one(call: Any) -> Any:
    """``call`` with a batching rule: ranks join the sequences. Keys and values, and their gradients, have these second."""
    one = custom_vmap(call)

    @one.def_vmap
    def every(size: int, batched: Any, *operands: Any) -> tuple[Any, Any]:
        spread = jax.tree.map(lambda x, has: x if has else jnp.broadcast_to(x, (size, *x.shape)), operands, tuple(batched))
        found = call(*jax.tree.map(_merged, spread))
        apart = jax.tree.map(lambda x: _apart(x, size), found)
        return apart, jax.tree.map(lambda _: True, apart)

    return one


def _merged(x: jax.Array) -> jax.Array:
    """R B .. to RB ..; R 2 B S K H to 2 RB S K H."""
    at = 1 if x.ndim == 6 else 0
    x = jnp.moveaxis(x, 0, at)
    return x.reshape(*x.shape[:at], -1, *x.shape[at + 2 :])


def _apart(x: jax.Array, size: int) -> jax.Array:
    """The inverse."""
    at = 1 if x.ndim == 5 else 0
    return jnp.moveaxis(x.reshape(*x.shape[:at], size, -1, *x.shape[at + 1 :]), at, 0)


def reference(operands: Operands, *, window: int | None) -> tuple[jax.Array, ...]:
    """Output and gradients of whole sequences in fp32, by ``jax.nn.dot_product_attention`` with a mask."""
    places = jnp.arange(operands.q.shape[1])
    behind = places[:, None] - places
    seen = (behind >= 0) if window is None else (behind >= 0) & (behind < window)
    mask = (seen & (operands.ids[:, :, None] == operands.ids[:, None]))[:, None]

    @jax.jit
    def run(q: jax.Array, kv: jax.Array, do: jax.Array) -> tuple[jax.Array, ...]:
        def whole(q: jax.Array, kv: jax.Array) -> jax.Array:
            return jax.nn.dot_product_attention(q, kv[0], kv[1], mask=mask, implementation="xla")

        o, pull = jax.vjp(whole, q, kv)
        dq, dkv = pull(do)
        return o, dq, *dkv

    with jax.default_matmul_precision("highest"):
        return run(*operands[:3])


def operands_of(case: Case, sizes: Sizes) -> Operands:
    """Random numbers that bf16 can hold, so that rounding of the inputs is in no error; documents of random lengths."""
    keys = jax.random.split(jax.random.key(0), 3)
    query, key = (1, sizes.tokens, sizes.heads, sizes.head_dim), (2, 1, sizes.tokens, sizes.kv_heads, sizes.head_dim)
    q, kv, do = (
        jax.random.normal(one, shape, jnp.bfloat16).astype(jnp.float32)
        for one, shape in zip(keys, (query, key, query), strict=True)
    )
    ends = np.random.default_rng(0).integers(1, sizes.tokens, size=7)
    ids = np.searchsorted(np.sort(ends), np.arange(sizes.tokens), side="right") * case.documents
    return Operands(q, kv, do, jnp.asarray(ids, jnp.int32)[None])


def _window(case: Case, sizes: Sizes) -> int | None:
    return int(case.window_of_chunk * sizes.tokens / case.ranks) or None


def _spec(case: Case, sizes: Sizes, kernel: KernelName) -> StepSpec:
    model = ModelSpec(
        name="attention", layers=1, d_model=sizes.heads * sizes.head_dim, d_ff=sizes.head_dim, vocab=128,
        heads=sizes.heads, kv_heads=sizes.kv_heads, head_dim=sizes.head_dim, sliding_window=_window(case, sizes),
    )  # fmt: skip
    strategy = Strategy(mesh=Mesh(context=case.ranks), scheme=case.scheme, bidirectional="on" if case.two_way else "off")
    return StepSpec(model, Workload(seq_len=sizes.tokens, global_batch=1), strategy, kernel)


def _errors(found: Sequence[jax.Array], exact: Sequence[jax.Array]) -> dict[str, float]:
    """Norm of the difference over the norm, by name."""
    pairs = [(np.asarray(one, np.float64), np.asarray(other, np.float64)) for one, other in zip(found, exact, strict=True)]
    errors = [float(np.linalg.norm(one - other) / np.linalg.norm(other)) for one, other in pairs]
    return dict(zip(NAMES, errors, strict=True))
