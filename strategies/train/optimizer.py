"""AdamW behind a global-norm clip, with both moments in the strategy's dtype."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from lcplan.strategy import Dtype
from strategies.inputs.step_spec import dtype_of

_WEIGHT_DECAY, _CLIP_NORM = 0.1, 1.0  # Llama 2's (arXiv:2307.09288, section 2.2), with its betas and learning rate
_BETAS = 0.9, 0.95


def adamw(moments_dtype: Dtype, learning_rate: float = 3e-4) -> optax.GradientTransformation:
    """Clip by global norm, then AdamW. The arithmetic is fp32 whatever the moments are stored in."""
    b1, b2 = _BETAS
    inner = optax.chain(
        optax.clip_by_global_norm(_CLIP_NORM), optax.adamw(learning_rate, b1=b1, b2=b2, weight_decay=_WEIGHT_DECAY)
    )
    return inner if moments_dtype == "fp32" else _stored(inner, dtype_of(moments_dtype))


def _stored(inner: optax.GradientTransformation, dtype: jnp.dtype) -> optax.GradientTransformation:
    """``inner`` with the arrays of its state kept in ``dtype`` between steps (optax offers this for the first moment only)."""

    def cast(state: Any, to: Any) -> Any:
        return jax.tree.map(lambda x: x.astype(to) if jnp.issubdtype(x.dtype, jnp.floating) else x, state)

    def init(params: Any) -> Any:
        return cast(inner.init(params), dtype)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = inner.update(updates, cast(state, jnp.float32), params)
        return updates, cast(state, dtype)

    return optax.GradientTransformation(init, update)
