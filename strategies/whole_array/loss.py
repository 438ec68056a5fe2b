"""Cross-entropy over whole arrays, a chunk of tokens at a time, its gradients computed as in ``strategies.model.loss``.

Three matrix products a chunk, no logits kept or made twice, never a T x V array. The manual step's gathers, sums and
scatters are shardings here. A chunk takes a run of tokens of every device, so that none moves. All lengths are
global: C chunks of n tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from lcplan.strategy.scopes import LOSS
from strategies.inputs.policy import PolicyTokens
from strategies.inputs.step_spec import StepSpec
from strategies.model.loss import IGNORE, Head, chunk_count, token_losses
from strategies.parallel.custom_gradients import with_backward
from strategies.parallel.mesh import TENSOR
from strategies.parallel.placement import SPLIT
from strategies.whole_array.products import Matrix
from strategies.whole_array.style import COLUMNS, RESIDUAL, TOKENS, Style

_USED = P(None, TENSOR)
"""The head where it is multiplied by: ``D V/tensor``."""


@dataclass(frozen=True)
class Scaled:
    """The targets, one over the number of tokens of the mean, and the values of a policy objective (None: cross-entropy)."""

    targets_BT: Int[Array, "B T"]
    scale: Float[Array, ""]
    policy: PolicyTokens | None = None


@jax.named_scope(LOSS)
def chunked_loss(
    h_BTD: Float[Array, "B T D"], head_VD: Float[Array, "V D"], *, scaled: Scaled, spec: StepSpec, style: Style
) -> Float[Array, ""]:
    """The sum of all tokens' losses, scaled."""
    loss = _ChunkedLoss(spec, style)
    return with_backward(loss.forward, loss.backward)(h_BTD, head_VD, (scaled.targets_BT, scaled.policy), scaled.scale)


@dataclass(frozen=True)
class _ChunkedLoss:
    spec: StepSpec
    style: Style

    @property
    def chunks(self) -> int:
        """Return the manual step's number of chunks with one sequence per device."""
        mesh, strategy = self.spec.strategy.mesh, self.spec.strategy
        sequences = self.spec.workload.global_batch // (mesh.data * mesh.fsdp * mesh.expert * strategy.microbatches)
        rows = self.spec.local_seq_len // mesh.tensor
        return chunk_count(rows, tensor=mesh.tensor, chunk_tokens=max(1, strategy.loss_chunk_tokens // sequences))

    def forward(
        self, h_BTD: Array, head_VD: Array, given: tuple[Array, PolicyTokens | None], scale: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        """The loss; its gradients as residuals."""
        numerics, how = self.spec.numerics, Head.of(self.spec)
        stored = P(*reversed(SPLIT["head"]))
        head_DV = Matrix(self.style, numerics, stored=stored, used=_USED).collect(head_VD.T)

        def chunk(carry: tuple[Array, Array], operands: tuple[Array, Any]) -> tuple[tuple[Array, Array], Array]:
            loss, dhead_DV = carry
            h_BnD, (targets_Bn, policy) = self.style.place(operands[0], TOKENS), operands[1]
            logits_BnV = self._dot(h_BnD, head_DV, over=((2,), (0,)), to=COLUMNS)
            logits_BnV = logits_BnV if how.temperature == 1.0 else logits_BnV / how.temperature
            nll_Bn, dlogits_BnV = _softmax(logits_BnV, targets_Bn)
            loss_Bn, slope_Bn = token_losses(nll_Bn, targets_Bn != IGNORE, policy, head=how)
            factor = scale if slope_Bn is None else scale * slope_Bn[..., None]
            dlogits_BnV = (dlogits_BnV * factor).astype(numerics.compute)
            dhead_DV += self._dot(h_BnD, dlogits_BnV, over=((0, 1), (0, 1)), to=_USED)
            dh_BnD = self.style.dot(dlogits_BnV, head_DV, over=((2,), (1,)), to=RESIDUAL, dtype=numerics.compute)
            return (loss + loss_Bn.sum() * scale, dhead_DV), dh_BnD

        zero = jnp.zeros((), jnp.float32), self.style.place(jnp.zeros(head_DV.shape, jnp.float32), _USED)
        operands = self._cut(h_BTD, to=RESIDUAL), jax.tree.map(partial(self._cut, to=TOKENS), given)
        (loss, dhead_DV), dh = lax.scan(chunk, zero, operands)
        dhead_DV = self.style.place(dhead_DV.astype(numerics.reduce), stored).astype(numerics.stored)
        return loss, (self._joined(dh), dhead_DV.T)

    def backward(self, gradients: tuple[Array, Array], dloss: Array) -> tuple[Any, ...]:
        """Scale the stored gradients; targets and scale have no gradient."""
        return (*((gradient * dloss).astype(gradient.dtype) for gradient in gradients), None, None)

    def _dot(self, a: Array, b: Array, *, over: Any, to: P) -> Array:
        return self.style.dot(a, b, over=over, to=to, dtype=jnp.float32)

    def _cut(self, x: Float[Array, "B T ..."], *, to: P) -> Float[Array, "C B n ..."]:
        return self.style.inferred(partial(_cut, chunks=self.chunks, ranks=self._ranks), to=P(None, *to))(x)

    def _joined(self, x: Float[Array, "C B n D"]) -> Float[Array, "B T D"]:
        return self.style.inferred(partial(_joined, ranks=self._ranks), to=RESIDUAL)(x)

    @property
    def _ranks(self) -> int:
        mesh = self.spec.strategy.mesh
        return mesh.context * mesh.tensor


def _cut(x: Float[Array, "B T ..."], *, chunks: int, ranks: int) -> Float[Array, "C B n ..."]:
    B, T, *rest = x.shape
    runs = x.reshape(B, ranks, chunks, T // (ranks * chunks), *rest)
    return jnp.moveaxis(runs, 2, 0).reshape(chunks, B, T // chunks, *rest)


def _joined(x: Float[Array, "C B n D"], *, ranks: int) -> Float[Array, "B T D"]:
    chunks, B, n, D = x.shape
    runs = jnp.moveaxis(x.reshape(chunks, B, ranks, n // ranks, D), 0, 2)
    return runs.reshape(B, chunks * n, D)


def _softmax(
    logits_BnV: Float[Array, "B n V"], targets_Bn: Int[Array, "B n"]
) -> tuple[Float[Array, "B n"], Float[Array, "B n V"]]:
    """Negative log-likelihood and its gradient. The label's logit by a mask: a lookup would gather the vocabulary."""
    own_BnV = targets_Bn[..., None] == lax.broadcasted_iota(jnp.int32, logits_BnV.shape, 2)
    largest_Bn = logits_BnV.max(axis=-1)
    total_Bn = jnp.exp(logits_BnV - largest_Bn[..., None]).sum(axis=-1)
    lse_Bn = jnp.log(total_Bn) + largest_Bn
    valid_Bn, label_Bn = targets_Bn != IGNORE, jnp.where(own_BnV, logits_BnV, 0).sum(axis=-1)
    dlogits_BnV = jnp.exp(logits_BnV - lse_Bn[..., None]) - own_BnV
    return jnp.where(valid_Bn, lse_Bn - label_Bn, 0), jnp.where(valid_Bn[..., None], dlogits_BnV, 0)
