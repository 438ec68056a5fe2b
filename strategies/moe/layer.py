"""The feed-forward layer of a mixture of experts, written for ``shard_map``: parameters are shards, all lengths are local."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import ACTIVATIONS, rms_norm
from strategies.layers.parameter import matrix, vector
from strategies.moe.capacity_rows import RowCapacity
from strategies.moe.exchange import exchange
from strategies.moe.expert_products import How, Operands, through_experts
from strategies.moe.fixed_capacity import Capacity
from strategies.moe.gather import Gathered
from strategies.moe.interface import Dispatch
from strategies.moe.router import choose
from strategies.moe.shared import SharedOperands, through_shared, weighed
from strategies.parallel.collectives import all_gather, reduce_scatter
from strategies.parallel.linear import Gather
from strategies.parallel.mesh import EXPERT_STATE_AXES, STATE_AXES, TENSOR


class ExpertFeedForward(nnx.Module):
    """RMSNorm, router, the weighted sum of k experts' gated products per token, and the shared experts."""

    def __init__(self, spec: StepSpec, rngs: nnx.Rngs) -> None:
        self.spec = spec
        model, experts = spec.model, spec.model.routed
        assert experts is not None
        self.norm = vector(model.d_model, fill=1.0)
        self.router = matrix(rngs, model.d_model, experts.count)
        shape = model.d_model, experts.count, experts.d_ff
        self.expert_gate, self.expert_up, self.expert_down = (matrix(rngs, *shape) for _ in range(3))
        if experts.shared_d_ff:
            wide = model.d_model, experts.shared_d_ff
            self.shared_gate, self.shared_up, self.shared_down = (matrix(rngs, *wide) for _ in range(3))
        self.shared_weight = vector(model.d_model) if experts.shared_gate else None

    def __call__(self, x_RD: Float[Array, "R D"]) -> tuple[Float[Array, "R D"], Int[Array, ""]]:
        """Return the experts' contribution to the residual stream, and the number of dropped rows of this rank's tokens.

        Rows are gathered over tensor for the router and all experts together; every tensor rank routes them alike.
        """
        spec, experts = self.spec, self.spec.model.routed
        assert experts is not None
        h_UD = all_gather(rms_norm(x_RD, self.norm[...], eps=spec.model.norm_eps), TENSOR)
        everywhere = Gather(spec.numerics, axes=(*STATE_AXES, TENSOR))
        choice = choose(h_UD, self.router[...], experts=experts, how=everywhere)
        dispatch = _dispatch(spec, jax.lax.stop_gradient(choice.experts_Uk))
        operands = Operands(h_UD, choice.weights_Uk, self.expert_gate[...], self.expert_up[...], self.expert_down[...])
        how = How(Gather(spec.numerics, axes=EXPERT_STATE_AXES), ACTIVATIONS[spec.model.activation])
        y_UD = through_experts(operands, dispatch, how=how)
        if experts.shared_d_ff:
            y_UD = y_UD + self._shared(h_UD)
        return reduce_scatter(y_UD, TENSOR), dispatch.dropped().astype(jnp.float32)

    def _shared(self, h_UD: Float[Array, "U D"]) -> Float[Array, "U D"]:
        """Return the shared experts' contribution, as this tensor rank's share."""
        weights_U = None if self.shared_weight is None else weighed(h_UD, self.shared_weight[...])
        operands = SharedOperands(h_UD, weights_U, self.shared_gate[...], self.shared_up[...], self.shared_down[...])
        return through_shared(operands, how=How(Gather(self.spec.numerics), ACTIVATIONS[self.spec.model.activation]))


def _dispatch(spec: StepSpec, experts_Uk: Int[Array, "U k"]) -> Dispatch:
    capacity = RowCapacity.of(spec, experts_Uk.shape[0])
    if spec.strategy.moe_dispatch == "capacity":
        return Capacity.of(experts_Uk, capacity=capacity)
    if spec.strategy.moe_dispatch == "gather":
        return Gathered.of(experts_Uk, capacity=capacity, platform=spec.platform)
    return exchange(experts_Uk, capacity=capacity, platform=spec.platform)
