"""Remat policies: which named tensors of a layer the forward pass keeps, as ``jax.checkpoint`` takes them.

Every policy recomputes the unnamed tensors: norms, rotations, activations, and the gathers of rows and weights. ``none`` keeps
every named tensor, so that no matrix product and no attention runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Shaped

from lcplan.strategy.remat import LAYER_IN, NAMED_TENSORS, RematPolicy


def name(x: Shaped[Array, ...], tensor: str) -> Shaped[Array, ...]:
    """Mark ``x`` as the named tensor that policies speak of."""
    assert tensor in (LAYER_IN, *NAMED_TENSORS)
    return checkpoint_name(x, tensor)


def remat(layer: Callable[..., Any], policy: RematPolicy) -> Callable[..., Any]:
    """The layer under a policy.

    jax ties recomputed values to the cotangent that needs them. Inside a scan that looks needless, but XLA peels the first
    iteration off the backward loop to pipeline its reductions, and would run that layer again while the loss holds the memory.
    """
    return jax.checkpoint(layer, policy=_checkpoint_policy(policy), prevent_cse=True)


def _checkpoint_policy(policy: RematPolicy) -> Callable[..., Any]:
    if not policy.offloaded:
        return jax.checkpoint_policies.save_only_these_names(*policy.kept)
    return jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(policy.kept),
        names_which_can_be_offloaded=list(policy.offloaded),
        offload_src="device",
        offload_dst="pinned_host",
    )
