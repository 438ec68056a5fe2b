"""Cross-entropy over a vocabulary split over tensor, a chunk of tokens at a time, with its gradients made on the way.

With a policy objective, the loss of a token is a function of its log-probability, and its gradient that of cross-entropy
times the function's slope.

The forward pass of a chunk has the logits in hand, so it also makes their gradient and multiplies it out: three matrix
products a chunk in all, no logits kept or computed twice, and never a T x V array. The gradient of the head is summed over
chunks in fp32 and reduce-scattered before the layers' backward pass begins; only its shard and the gradient of
the hidden rows stay alive. The backward pass only scales them.

Inside ``shard_map``: all lengths are local. R rows of the residual stream, U = R * tensor tokens of the context rank in
chunks of C, V rows of the vocabulary and d = D / (fsdp * context) columns of the head on this device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from lcplan.strategy.scopes import LOSS
from strategies.inputs.policy import PolicyObjective, PolicyTokens
from strategies.inputs.step_spec import Numerics, StepSpec
from strategies.parallel.collectives import (
    all_gather,
    all_max,
    all_reduce,
    gathered_weight,
    reduce_scatter,
    reduce_scatter_tiles,
)
from strategies.parallel.compute_in_place import staged_with
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import STATE_AXES, TENSOR
from strategies.parallel.ranks import axis_index, axis_size

IGNORE = -1
"""Target of a token without a target: it counts neither in the loss nor in the mean."""


class Hidden(NamedTuple):
    """Operands with a gradient."""

    h_RD: Float[Array, "R D"]
    head_Vd: Float[Array, "V d"]


class Targets(NamedTuple):
    """Targets of the loss."""

    targets_U: Int[Array, " U"]
    scale: Float[Array, ""]
    """One over the number of tokens that the loss is the mean of."""
    policy: PolicyTokens | None = None
    """Values of each token for a policy objective; None: cross-entropy."""


@dataclass(frozen=True)
class Head:
    """How the head is computed: tokens of a chunk, dtypes, and the objective of a policy (None: cross-entropy)."""

    chunk_tokens: int
    numerics: Numerics
    objective: PolicyObjective | None = None

    @classmethod
    def of(cls, spec: StepSpec) -> Head:
        """The head of a step."""
        return cls(spec.strategy.loss_chunk_tokens, spec.numerics, spec.objective)

    @property
    def temperature(self) -> float:
        """The divisor of logits."""
        return 1.0 if self.objective is None else self.objective.temperature


def chunk_count(rows: int, *, tensor: int, chunk_tokens: int) -> int:
    """Chunks: the fewest that divide ``rows`` and hold at most ``chunk_tokens`` tokens (``tensor`` times their rows) each."""
    fewest = -(-rows * tensor // chunk_tokens)
    return next(n for n in range(min(fewest, rows), rows + 1) if rows % n == 0)


@jax.named_scope(LOSS)
def vocabulary_loss(hidden: Hidden, targets: Targets, *, head: Head) -> Float[Array, ""]:
    """This context rank's share of the mean loss; the same on all its tensor ranks, and to be differentiated as one share."""
    return with_backward(partial(_forward, head=head), _backward)(hidden, targets)


def _forward(hidden: Hidden, targets: Targets, *, head: Head) -> tuple[Float[Array, ""], Hidden]:
    (h_RD, head_Vd), scale, numerics = hidden, targets.scale, head.numerics
    rows, D = h_RD.shape
    chunks = chunk_count(rows, tensor=axis_size(TENSOR), chunk_tokens=head.chunk_tokens)
    head_DV = gathered_weight(staged_with(head_Vd, h_RD).T, STATE_AXES, numerics=numerics)

    def chunk(carry: Any, operands: Any) -> Any:
        loss, dhead_DV = carry
        h_rD, targets_C, policy = operands
        h_CD = all_gather(h_rD, TENSOR)
        nll_C, dlogits_CV = _softmax(_logits(h_CD, head_DV, head=head), targets_C)
        loss_C, slope_C = token_losses(nll_C, targets_C != IGNORE, policy, head=head)
        dlogits_CV = (dlogits_CV * (scale if slope_C is None else scale * slope_C[:, None])).astype(numerics.compute)
        dhead_DV += jnp.matmul(h_CD.T, dlogits_CV, preferred_element_type=jnp.float32)
        return (loss + loss_C.sum() * scale, dhead_DV), reduce_scatter(dlogits_CV @ head_DV.T, TENSOR)

    zero = jnp.zeros((), jnp.float32), jnp.zeros(head_DV.shape, jnp.float32)
    given = jax.tree.map(partial(_by_chunk, chunks=chunks), (targets.targets_U, targets.policy))
    (loss, dhead_DV), dh = lax.scan(chunk, zero, (h_RD.reshape(chunks, -1, D), *given))
    dhead_dV = reduce_scatter_tiles(dhead_DV.astype(numerics.reduce), STATE_AXES).astype(numerics.stored)
    # The whole gradient of the head must be gone before the layers' backward pass, which needs its space, begins.
    return loss, Hidden(*lax.optimization_barrier((dh.reshape(rows, D), dhead_dV.T)))


def token_losses(
    nll: Float[Array, "..."], valid: Bool[Array, "..."], policy: PolicyTokens | None, *, head: Head
) -> tuple[Float[Array, "..."], Float[Array, "..."] | None]:
    """Loss of each token, and the factor of the gradient of its cross-entropy by the logits; None: 1."""
    if head.objective is None:
        return nll, None
    assert policy is not None, "a policy objective reads advantages and old log-probabilities"
    loss, slope = head.objective.with_slope(nll, policy)
    return jnp.where(valid, loss, 0), jnp.where(valid, slope / head.temperature, 0)


def token_log_probs(hidden: Hidden, targets_U: Int[Array, " U"], *, head: Head) -> Float[Array, " U"]:
    """Log-probability of each target, the same on all tensor ranks; 0 without a target. Not to be differentiated."""
    h_RD, head_Vd = hidden
    rows, D = h_RD.shape
    chunks = chunk_count(rows, tensor=axis_size(TENSOR), chunk_tokens=head.chunk_tokens)
    head_DV = gathered_weight(staged_with(head_Vd, h_RD).T, STATE_AXES, numerics=head.numerics)

    def chunk(operands: tuple[Array, Array]) -> Array:
        h_rD, targets_C = operands
        return -_softmax(_logits(all_gather(h_rD, TENSOR), head_DV, head=head), targets_C)[0]

    found = lax.map(chunk, (h_RD.reshape(chunks, -1, D), _by_chunk(targets_U, chunks=chunks)))
    return found.reshape(chunks, axis_size(TENSOR), -1).swapaxes(0, 1).reshape(-1)


def _logits(h_CD: Float[Array, "C D"], head_DV: Float[Array, "D V"], *, head: Head) -> Float[Array, "C V"]:
    logits_CV = jnp.matmul(h_CD, head_DV, preferred_element_type=jnp.float32)
    return logits_CV if head.temperature == 1.0 else logits_CV / head.temperature


def _by_chunk(x_U: Array, *, chunks: int) -> Array:
    """Values of each chunk's tokens: each tensor rank has a row of it."""
    return x_U.reshape(axis_size(TENSOR), chunks, -1).swapaxes(0, 1).reshape(chunks, -1)


def _backward(gradients: Hidden, dloss: Float[Array, ""]) -> tuple[Hidden, None]:
    return Hidden(*((gradient * dloss).astype(gradient.dtype) for gradient in gradients)), None


def _softmax(logits_CV: Float[Array, "C V"], targets_C: Int[Array, " C"]) -> tuple[Float[Array, " C"], Float[Array, "C V"]]:
    """Negative log-likelihood of the targets and its gradient by the logits, the vocabulary split over tensor."""
    rows = logits_CV.shape[1]
    label_C = targets_C - axis_index(TENSOR) * rows
    own_CV = label_C[:, None] == jnp.arange(rows)
    largest_C = all_max(logits_CV.max(axis=1), TENSOR)
    total_C = jnp.exp(logits_CV - largest_C[:, None]).sum(axis=1)
    label_logit_C = jnp.where(own_CV, logits_CV, 0).sum(axis=1)
    total_C, label_logit_C = all_reduce(jnp.stack([total_C, label_logit_C]), TENSOR)
    lse_C, valid_C = jnp.log(total_C) + largest_C, targets_C != IGNORE
    # The exponential is taken anew from the logits: to keep the first would be one more chunk of fp32 logits.
    dlogits_CV = jnp.exp(logits_CV - lse_C[:, None]) - own_CV
    return jnp.where(valid_C, lse_C - label_logit_C, 0), jnp.where(valid_C[:, None], dlogits_CV, 0)
