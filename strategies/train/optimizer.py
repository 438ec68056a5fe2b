"""The strategy's optimizer, optax's own, behind a global-norm clip, with its state in the strategy's dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from lcplan.strategy import Strategy
from strategies.inputs.step_spec import dtype_of
from strategies.parallel.stored import is_matrix
from strategies.train.moments import encode, widened
from strategies.train.muon import muon
from strategies.train.state_paths import owners

_WEIGHT_DECAY, _CLIP_NORM = 0.1, 1.0  # Llama 2's (arXiv:2307.09288, section 2.2), with its betas and learning rate
_BETAS = 0.9, 0.95

Pieces = Callable[[str], int]
"""The shards of a parameter's last dim, by its path."""


def optimizer_of(strategy: Strategy, learning_rate: float = 3e-4, *, pieces: Pieces = lambda _: 1) -> Any:
    """Clip by global norm, then the strategy's optimizer. The arithmetic is fp32 whatever the state is stored in."""
    rule = optax.chain(optax.clip_by_global_norm(_CLIP_NORM), _rule(strategy, learning_rate))
    kind = "int8" if strategy.optimizer == "adamw-8bit" else strategy.moments_dtype

    def stored(path: str, leaf: Array) -> Any:
        if kind == "bf16" or not is_matrix(path):
            return leaf.astype(dtype_of(kind if kind == "bf16" else "fp32"))
        return encode(leaf, kind, pieces=pieces(path))

    def narrowed(state: Any, params: Any) -> Any:
        return state if kind == "fp32" else owners(state, params).map(stored)

    def init(params: Any) -> Any:
        return narrowed(rule.init(widened(params)), params)

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        wide = widened(params)
        updates, state = rule.update(widened(gradients), widened(state), wide)
        return updates, narrowed(state, params)

    return optax.GradientTransformation(init, update)


def _rule(strategy: Strategy, learning_rate: float) -> optax.GradientTransformation:
    b1, b2 = _BETAS
    adamw = optax.adamw(learning_rate, b1=b1, b2=b2, weight_decay=_WEIGHT_DECAY)
    match strategy.optimizer:
        case "adafactor":
            return optax.adafactor(learning_rate, weight_decay_rate=_WEIGHT_DECAY * learning_rate)
        case "lion":
            return optax.lion(learning_rate, weight_decay=_WEIGHT_DECAY)
        case "muon":
            return muon(adamw, learning_rate=learning_rate, weight_decay=_WEIGHT_DECAY)
        case "sgd":
            return optax.sgd(learning_rate)
    return adamw


def apply_updates(params: Any, updates: Any, *, strategy: Strategy, step: Int[Array, ""]) -> Any:
    """Add fp32 updates; without masters, the remainder beyond bf16 is the chance to round away from zero.

    Nearest rounding would lose updates below half a step of bf16, 1 / 512 of the weight (arXiv:2010.06192).
    """
    leaves, tree = jax.tree.flatten(params)
    added = []
    for index, (leaf, change) in enumerate(zip(leaves, jax.tree.leaves(updates), strict=True)):
        wide = leaf.astype(jnp.float32) + change
        if leaf.dtype == jnp.bfloat16 and strategy.master_dtype == "none":
            added.append(_by_chance(wide, jax.random.fold_in(jax.random.fold_in(jax.random.key(0), step), index)))
        else:
            added.append(wide.astype(leaf.dtype))
    return jax.tree.unflatten(tree, added)


def _by_chance(x: Array, key: Array) -> Array:
    """Round fp32 to bf16, up or down with the chance of the 16 bits that are cut off."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    noise = jax.random.bits(key, x.shape, jnp.uint16).astype(jnp.uint32)
    kept = jax.lax.bitcast_convert_type((bits + noise) & jnp.uint32(0xFFFF0000), jnp.float32)
    return kept.astype(jnp.bfloat16)
