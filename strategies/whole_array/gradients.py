"""Loss and gradients over whole arrays, as ``shard_map`` computes them in the manual mode. All lengths are global."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from strategies.inputs.step_spec import StepSpec
from strategies.model.accumulate import accumulate
from strategies.model.batch import Batch
from strategies.model.loss import IGNORE
from strategies.parallel.stored import differentiated
from strategies.whole_array.model import GlobalView
from strategies.whole_array.style import TOKENS, Style


@dataclass(frozen=True, eq=False)  # told apart by identity, as jax.jit wants of what it compiles
class GlobalLossAndGradients:
    """Build (params, batch) -> (loss, gradients, dropped rows), each gradient with its parameter's sharding."""

    spec: StepSpec
    graph: Any
    specs: nnx.State
    style: Style

    def __call__(self, params: nnx.State, batch: Batch) -> tuple[Float[Array, ""], nnx.State, Float[Array, ""] | None]:
        """Mean loss over the whole batch, its gradients, and with experts the dropped rows."""
        scale = 1 / (batch.targets_BT != IGNORE).sum().astype(jnp.float32)
        view = GlobalView(self.spec, self.style)

        def loss(params: nnx.State, part: Batch) -> tuple[Float[Array, ""], Float[Array, ""] | None]:
            model = nnx.merge(self.graph, params)
            return view.loss(model, part, scale)

        params = differentiated(params, self.spec.strategy)

        def placed(part: Batch) -> tuple[tuple[Float[Array, ""], Float[Array, ""] | None], nnx.State]:
            values, gradients = jax.value_and_grad(loss, has_aux=True)(params, part)
            return values, jax.tree.map(self.style.place, gradients, self.specs)

        with jax.default_matmul_precision("highest" if self.spec.workload.precision == "fp32" else "default"):
            wide = self.spec.strategy.grad_dtype == "fp32"
            (value, dropped), gradients = accumulate(placed, self._parts(batch), wide=wide)
        return value, gradients, dropped

    def _parts(self, batch: Batch) -> Batch:
        """``B T`` to ``M B/M T``: every device's own sequences, cut in M; none moves."""
        microbatches = self.spec.strategy.microbatches
        mesh = self.spec.strategy.mesh
        ranks = mesh.data * mesh.fsdp * mesh.expert

        def cut(x_BT: Array) -> Array:
            parts = x_BT.reshape(ranks, microbatches, -1, x_BT.shape[1])
            return parts.swapaxes(0, 1).reshape(microbatches, -1, x_BT.shape[1])

        return jax.tree.map(self.style.inferred(cut, to=P(None, *TOKENS)), batch)
