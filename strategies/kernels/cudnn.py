"""cuDNN's fused attention on GPU. The only file that touches jax's private cuDNN primitives.

jax's public function cannot serve a ring: its backward pass drops the gradient of the log-sum-exp and takes no global one.
The primitives underneath take both. A test pins their signatures, so that a jax that moves them fails loudly.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from math import sqrt
from typing import Any

import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as fused
from jaxtyping import Array, Float

from strategies.kernels.interface import Attended, Gradients, Mask, Segments

# From jax 0.12 on the primitives also take a function that changes scores; we have none.
_NEWER = {"score_mod": None} if "score_mod" in signature(fused._dot_product_attention_fwd_impl).parameters else {}
HIDDEN = -(2.0**41)
"""A score that weighs nothing: as low as jax's own masks for cuDNN, which has a bug beyond (``get_large_negative_number``)."""
_MASKS = {"full": fused.MaskType.NO_MASK, "causal": fused.MaskType.CAUSAL}


def _parameters(q: Float[Array, "B T N H"], mask: Mask, *, segments: Segments | None, window: int | None) -> dict[str, Any]:
    return {
        "scale": 1 / sqrt(q.shape[-1]),
        "seed": 0,
        "dropout_rate": 0.0,
        "variadic_args": (segments is not None, False),  # a bias where there are documents, never its gradient
        "mask_type": _MASKS[mask],
        "layout": fused.AttentionLayout.BTNH.value,
        "sliding_window_length": window,
        **_NEWER,
    }


def _beside(q: Float[Array, "B T N H"], segments: Segments | None, *, rows: int) -> tuple[Float[Array, ...], ...]:
    """Bias, then lengths of queries and keys, their offsets, page tables: operands of features that are off.

    ``rows`` of zeros before the queries are of the same tokens as the first keys.
    """
    nothing = jnp.zeros(0, q.dtype)
    if segments is None:
        return (nothing,) * 7
    queries = jnp.concatenate([segments.kv[:, :rows], segments.q], axis=1) if rows else segments.q
    return (_bias(Segments(queries, segments.kv), q.dtype), *(nothing,) * 6)


def _bias(segments: Segments, dtype: jnp.dtype) -> Float[Array, "B 1 T S"]:
    """Bias that hides keys of other documents: a score so low that its weight is 0, the same for all heads.

    Not minus infinity: a query that sees no key of the chunk would get no number. A product, for the two constants that a
    choice is between would be arrays of T x S, which jax makes once for all layers and keeps.
    """
    different = segments.q[:, :, None] != segments.kv[:, None]
    return (different.astype(dtype) * jnp.asarray(HIDDEN, dtype))[:, None]


def _padded(x: Float[Array, "B T ..."], rows: int) -> Float[Array, "B S ..."]:
    """Prepend ``rows`` of zeros to the queries, or to an array of the same rows."""
    return jnp.pad(x, ((0, 0), (rows, 0), *((0, 0),) * (x.ndim - 2))) if rows else x


@dataclass(frozen=True)
class CudnnKernel:
    """cuDNN: 16-bit inputs, head dims up to 128 (256 on Hopper and later) in multiples of 8.

    Documents are a bias, as jax's own masks are: 2 B T S bytes, of lengths that are even, and no tile is left out for it.
    (Its packed layout takes a fixed number of documents, and that many times the log-sum-exps.)

    A window needs as many queries as keys: zeros replace the queries of keys before the first query's own. Their
    outputs are cut off, and with cotangents of zero they add nothing to any gradient. With documents the window joins
    their bias, which cuDNN takes from 9.10.2 on (github NVIDIA/cudnn-frontend, node/sdpa_support_surface.h).
    """

    window: int | None = None

    def forward(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask, segments: Segments | None = None
    ) -> Attended:
        """Output and softmax statistics, which cuDNN keeps as log-sum-exp when it trains."""
        rows = self._rows(q, kv)
        how = _parameters(q, mask, segments=segments, window=self.window)
        operands = _padded(q, rows), kv[0], kv[1], *_beside(q, segments, rows=rows)
        o, lse = fused._dot_product_attention_fwd_p_wrapper.bind(*operands, **how, is_training=True)
        return Attended(o[:, rows:], lse[:, :, rows:])

    def backward(
        self,
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B S K H"],
        *,
        attended: Attended,
        do: Float[Array, "B T N H"],
        mask: Mask,
        segments: Segments | None = None,
    ) -> Gradients:
        """One fused call; cuDNN forms rowsum(do * o) itself."""
        rows = self._rows(q, kv)
        lse = jnp.pad(attended.lse, ((0, 0), (0, 0), (rows, 0))) if rows else attended.lse
        operands = (
            _padded(q, rows),
            kv[0],
            kv[1],
            *_beside(q, segments, rows=rows),
            lse,
            _padded(attended.o, rows),
            _padded(do, rows),
        )
        how = _parameters(q, mask, segments=segments, window=self.window)
        dq, dk, dv = fused._dot_product_attention_bwd_p_wrapper.bind(*operands, **how)
        return Gradients(dq[:, rows:], jnp.stack([dk, dv]))

    def _rows(self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"]) -> int:
        """Keys before the first query's own; without a window they are whole chunks, which need no zeros."""
        return 0 if self.window is None else kv.shape[2] - q.shape[1]
