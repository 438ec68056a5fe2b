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

from strategies.kernels.interface import Attended, Gradients, Mask

# From jax 0.12 on the primitives also take a function that changes scores; we have none.
_NEWER = {"score_mod": None} if "score_mod" in signature(fused._dot_product_attention_fwd_impl).parameters else {}
_MASKS = {"full": fused.MaskType.NO_MASK, "causal": fused.MaskType.CAUSAL}


def _parameters(q: Float[Array, "B T N H"], mask: Mask) -> dict[str, Any]:
    return {
        "scale": 1 / sqrt(q.shape[-1]),
        "seed": 0,
        "dropout_rate": 0.0,
        "variadic_args": (False, False),  # neither a bias nor its gradient
        "mask_type": _MASKS[mask],
        "layout": fused.AttentionLayout.BTNH.value,
        "sliding_window_length": None,
        **_NEWER,
    }


def _unused(q: Float[Array, "B T N H"]) -> tuple[Float[Array, 0], ...]:
    """Bias, lengths of queries and keys, their offsets, page tables: operands of features that are off."""
    return (jnp.zeros(0, q.dtype),) * 7


class CudnnKernel:
    """cuDNN: 16-bit inputs, head dims up to 128 (256 on Hopper and later) in multiples of 8."""

    def forward(self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask) -> Attended:
        """Output and softmax statistics, which cuDNN keeps as log-sum-exp when it trains."""
        o, lse = fused._dot_product_attention_fwd_p_wrapper.bind(
            q, kv[0], kv[1], *_unused(q), **_parameters(q, mask), is_training=True
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
    ) -> Gradients:
        """One fused call; cuDNN forms rowsum(do * o) itself."""
        dq, dk, dv = fused._dot_product_attention_bwd_p_wrapper.bind(
            q, kv[0], kv[1], *_unused(q), attended.lse, attended.o, do, **_parameters(q, mask)
        )
        return Gradients(dq, jnp.stack([dk, dv]))
