"""Generated: the result of a rollout, and the tokens that its decode starts from."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from strategies.rollout.cache import Cache


class Generated(NamedTuple):
    """New tokens of every sequence; the cache has the prompts and all new tokens but the last."""

    cache: Cache
    tokens_BG: Int[Array, "B G"]
    log_probs_BG: Float[Array, "B G"]
    """fp32 log-probabilities of the tokens under the distribution that they were drawn from: ``softmax(logits /
    temperature)``, at temperature 0 ``softmax(logits)``."""


def last_tokens(prompts_BT: Int[Array, "B T"], lengths_B: Any = None) -> Int[Array, " B"]:
    """The last token of each prompt, with which decode begins."""
    if lengths_B is None:
        return prompts_BT[:, -1]
    return jnp.take_along_axis(jnp.asarray(prompts_BT), jnp.asarray(lengths_B)[:, None] - 1, axis=1)[:, 0]
