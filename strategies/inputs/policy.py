"""The clipped policy objective of a token, a function of its log-probability: PPO (arXiv:1707.06347), GRPO (arXiv:2402.03300).

Shapes are those of the tokens: ``U`` inside ``shard_map``, ``B n`` over whole arrays. All values are fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class PolicyTokens(NamedTuple):
    """Values of each token that the objective reads; they have no gradient. Tokens without a target may have any."""

    advantages: Float[Array, "..."]
    """Advantage of the token's sequence, or of the token itself."""
    old_log_probs: Float[Array, "..."]
    """Log-probability under the policy that sampled it."""
    reference_log_probs: Float[Array, "..."] | None = None
    """Log-probability under the reference model; None without a KL term."""


@dataclass(frozen=True)
class PolicyObjective:
    """Constants of the objective."""

    clip_low: float = 0.2
    """The ratio of probabilities counts down to ``1 - clip_low`` (0.2: PPO's, section 6.1)."""
    clip_high: float = 0.2
    """The ratio counts up to ``1 + clip_high``."""
    kl_coefficient: float = 0.0
    """Weight of the KL divergence to the reference model (GRPO used 0.04); 0: no reference model."""
    temperature: float = 1.0
    """Temperature of sampling: the policy is the softmax of the logits over it."""

    def of_tokens(self, log_probs: Float[Array, "..."], given: PolicyTokens) -> Float[Array, "..."]:
        """Return the loss of each token.

        ``-min(r A, clip(r, 1 - low, 1 + high) A) + beta (exp(d) - d - 1)``, where r is the ratio of the token's probability
        to its old one and d its reference log-probability minus its own (GRPO, equations 3 and 4).
        """
        ratio = jnp.exp(log_probs - given.old_log_probs)
        clipped = jnp.clip(ratio, 1 - self.clip_low, 1 + self.clip_high)
        loss = -jnp.minimum(ratio * given.advantages, clipped * given.advantages)
        if not self.kl_coefficient:
            return loss
        assert given.reference_log_probs is not None, "a KL term needs the reference model's log-probabilities"
        apart = given.reference_log_probs - log_probs
        return loss + self.kl_coefficient * (jnp.exp(apart) - apart - 1)

    def with_slope(self, nll: Float[Array, "..."], given: PolicyTokens) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the loss of each token, and its derivative by the token's negative log-likelihood."""
        loss, back = jax.vjp(lambda nll: self.of_tokens(-nll, given), nll)
        (slope,) = back(jnp.ones_like(loss))
        return loss, slope
