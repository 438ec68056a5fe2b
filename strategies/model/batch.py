"""The input of a train step."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from strategies.inputs.policy import PolicyTokens
from strategies.model.loss import IGNORE


class Batch(NamedTuple):
    """Token ids and their targets, ``B/(data, fsdp) T/context``, in the order that the scheme's ranks hold them."""

    tokens_BT: Int[Array, "B T"]
    targets_BT: Int[Array, "B T"]
    """Next tokens; ``-1`` at positions without a target."""
    documents_BT: Int[Array, "B T"] | None = None
    """Which document of its sequence each token is of, by any ids that differ; None: every sequence is one."""
    policy: PolicyTokens | None = None
    """Values of each token for a policy objective, ``B T`` as the tokens; None: cross-entropy."""


def packed(batch: Batch, order: np.ndarray, *, document_len: int) -> Batch:
    """``batch``, whose tokens are in ``order``, as documents of one length; a document's last token has nothing to predict."""
    ends = (order + 1) % document_len == 0
    documents_BT = jnp.broadcast_to(jnp.asarray(order // document_len, jnp.int32), batch.tokens_BT.shape)
    return batch._replace(targets_BT=jnp.where(ends, IGNORE, batch.targets_BT), documents_BT=documents_BT)
