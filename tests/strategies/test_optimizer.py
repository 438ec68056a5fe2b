"""AdamW with bf16 moments against the fp32 one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcplan.strategy import Mesh, Strategy
from strategies.train.optimizer import optimizer_of

PARAMS = {"w": jnp.linspace(-1, 1, 64)}


def adamw(moments_dtype):
    return optimizer_of(Strategy(mesh=Mesh(), moments_dtype=moments_dtype))


def three_updates(moments_dtype):
    optimizer = adamw(moments_dtype)
    state, updates = optimizer.init(PARAMS), None
    for step in range(3):
        gradients = {"w": jnp.sin(jnp.arange(64.0) + step)}
        updates, state = optimizer.update(gradients, state, PARAMS)
    return updates, state


def test_moments_are_stored_in_their_dtype_and_used_in_fp32():
    wide, narrow = three_updates("fp32"), three_updates("bf16")
    dtypes = {x.dtype for x in jax.tree.leaves(narrow[1]) if jnp.issubdtype(x.dtype, jnp.floating)}
    assert dtypes == {jnp.dtype(jnp.bfloat16)}
    assert narrow[0]["w"].dtype == jnp.float32
    error = np.linalg.norm(narrow[0]["w"] - wide[0]["w"]) / np.linalg.norm(wide[0]["w"])
    assert 0 < error < 0.01


def test_large_gradients_are_clipped_to_norm_one():
    optimizer = adamw("fp32")
    huge = {"w": jnp.full(64, 1e6)}
    _, state = optimizer.update(huge, optimizer.init(PARAMS), PARAMS)
    first_moment = jax.tree.leaves(state)[1]
    assert np.linalg.norm(first_moment) == pytest.approx(0.1)  # (1 - b1) of a gradient of norm 1
