"""Advantages of sampled sequences from their rewards."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def group_advantages(rewards_B: Float[Array, " B"], *, group: int) -> Float[Array, " B"]:
    """Rewards relative to their group: minus the group's mean, over its standard deviation (GRPO, section 4.1.2).

    Sequences ``i group .. (i + 1) group - 1`` answer one prompt. A group of equal rewards has zeros.

    >>> group_advantages(jnp.array([0.0, 2.0, 1.0, 1.0]), group=2).round(3).tolist()
    [-1.0, 1.0, 0.0, 0.0]
    """
    rewards = rewards_B.astype(jnp.float32).reshape(-1, group)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    return (centred / (rewards.std(axis=1, keepdims=True) + 1e-6)).reshape(-1)
