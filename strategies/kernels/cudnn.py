"""cuDNN's fused attention on GPU. The only file that touches jax's private cuDNN primitives.

jax's public function cannot serve a ring: its backward pass drops the gradient of the log-sum-exp and takes no global one.
The primitives underneath take both. A test pins their signatures, so that a jax that moves them fails loudly.
"""

from __future__ import annotations

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


def _parameters(q: Float[Array, "B T N H"], mask: Mask, segments: Segments | None) -> dict[str, Any]:
    return {
        "scale": 1 / sqrt(q.shape[-1]),
        "seed": 0,
        "dropout_rate": 0.0,
        "variadic_args": (segments is not None, False),  # a bias where there are documents, never its gradient
        "mask_type": _MASKS[mask],
        "layout": fused.AttentionLayout.BTNH.value,
        "sliding_window_length": None,
        **_NEWER,
    }


def _beside(q: Float[Array, "B T N H"], segments: Segments | None) -> tuple[Float[Array, ...], ...]:
    """Bias, then lengths of queries and keys, their offsets, page tables: operands of features that are off."""
    nothing = jnp.zeros(0, q.dtype)
    return (nothing if segments is None else _bias(segments, q.dtype), *(nothing,) * 6)


def _bias(segments: Segments, dtype: jnp.dtype) -> Float[Array, "B 1 T S"]:
    """What keeps a query from keys of other documents: a score so low that its weight is 0, for all heads alike.

    Not minus infinity: a query that sees no key of the chunk would get no number. A product, for the two constants that a
    choice is between would be arrays of T x S, which jax makes once for all layers and keeps.
    """
    different = segments.q[:, :, None] != segments.kv[:, None]
    return (different.astype(dtype) * jnp.asarray(HIDDEN, dtype))[:, None]


class CudnnKernel:
    """cuDNN: 16-bit inputs, head dims up to 128 (256 on Hopper and later) in multiples of 8.

    Documents are a bias, as jax's own masks are: 2 B T S bytes, of lengths that are even, and no tile is left out for it.
    (Its packed layout takes a fixed number of documents, and that many times the log-sum-exps.)
    """

    def forward(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask, segments: Segments | None = None
    ) -> Attended:
        """Output and softmax statistics, which cuDNN keeps as log-sum-exp when it trains."""
        o, lse = fused._dot_product_attention_fwd_p_wrapper.bind(
            q, kv[0], kv[1], *_beside(q, segments), **_parameters(q, mask, segments), is_training=True
        )
        return Attended(o, lse)

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
        dq, dk, dv = fused._dot_product_attention_bwd_p_wrapper.bind(
            q, kv[0], kv[1], *_beside(q, segments), attended.lse, attended.o, do, **_parameters(q, mask, segments)
        )
        return Gradients(dq, jnp.stack([dk, dv]))
