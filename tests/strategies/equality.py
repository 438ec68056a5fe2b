"""Holding a step's loss and gradients against the single-device reference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from reference import reference_loss

from lcplan.model import ModelSpec
from lcplan.strategy import Strategy
from lcplan.workload import Workload
from strategies.mesh import build_mesh
from strategies.schemes.layout import token_order
from strategies.spec import StepSpec
from strategies.step import Batch, TrainStep, build_step


@dataclass(frozen=True)
class Case:
    """One comparison: the model, the workload's size and the strategy."""

    model: ModelSpec
    strategy: Strategy
    seq_len: int = 32
    global_batch: int = 4
    precision: str = "fp32"

    def spec(self) -> StepSpec:
        workload = Workload(seq_len=self.seq_len, global_batch=self.global_batch, precision=self.precision)
        return StepSpec(self.model, workload, self.strategy, "blockwise")


@cache
def random_params(model: ModelSpec) -> dict[str, Any]:
    """Parameters large enough that attention is far from uniform; norms around one; biases not zero."""
    single = Case(model, Strategy(mesh={}, gather_dtype="fp32"))
    shapes = nnx.to_pure_dict(_step(single).abstract_arguments()[0].params)
    rng = np.random.default_rng(0)

    def draw(path: Any, shape: jax.ShapeDtypeStruct) -> np.ndarray:
        centre, spread = (1.0, 0.2) if "norm" in jax.tree_util.keystr(path) else (0.0, 0.3)
        return rng.normal(centre, spread, shape.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


@cache
def random_tokens(model: ModelSpec, global_batch: int, seq_len: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and next tokens, in order; some targets are missing."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, model.vocab, (global_batch, seq_len + 1), dtype=np.int32)
    targets = np.where(rng.random((global_batch, seq_len)) < 0.1, -1, tokens[:, 1:]).astype(np.int32)
    return tokens[:, :-1], targets


@cache
def reference(model: ModelSpec, global_batch: int, seq_len: int) -> tuple[float, dict[str, Any]]:
    """Loss and gradients of the reference, fp32."""
    tokens, targets = random_tokens(model, global_batch, seq_len)
    value_and_grad = jax.jit(jax.value_and_grad(lambda params: reference_loss(params, tokens, targets, model=model)))
    loss, gradients = value_and_grad(random_params(model))
    return float(loss), jax.tree.map(np.asarray, gradients)


def _step(case: Case) -> TrainStep:
    return build_step(case.spec(), build_mesh(case.strategy, jax.devices()[: case.strategy.devices]))


def computed(case: Case) -> tuple[float, dict[str, Any]]:
    """Loss and gradients of the step on its mesh."""
    step = _step(case)
    tokens, targets = random_tokens(case.model, case.global_batch, case.seq_len)
    order = token_order(case.strategy, seq_len=case.seq_len)
    abstract, batch = step.abstract_arguments()
    shardings = jax.tree.map(lambda shape: shape.sharding, (abstract.params, batch))
    params = jax.tree.unflatten(jax.tree.structure(abstract.params), jax.tree.leaves(random_params(case.model)))
    arguments = jax.device_put((params, Batch(jnp.asarray(tokens[:, order]), jnp.asarray(targets[:, order]))), shardings)
    loss, gradients = jax.jit(step.loss_and_gradients)(*arguments)
    return float(loss), jax.tree.map(np.asarray, nnx.to_pure_dict(gradients))


def relative_errors(got: Any, wanted: Any) -> dict[str, float]:
    """Norm of the difference over the norm, by parameter."""
    pairs = jax.tree_util.tree_leaves_with_path(
        jax.tree.map(lambda a, b: (a, b), got, wanted), is_leaf=lambda x: isinstance(x, tuple)
    )
    return {jax.tree_util.keystr(path): float(np.linalg.norm(a - b) / np.linalg.norm(b)) for path, (a, b) in pairs}


def errors(case: Case) -> dict[str, float]:
    """Relative errors of the loss and of every gradient against the fp32 reference."""
    wanted_loss, wanted = reference(case.model, case.global_batch, case.seq_len)
    loss, gradients = computed(case)
    assert jax.tree.structure(gradients) == jax.tree.structure(wanted)
    return {"loss": abs(loss / wanted_loss - 1)} | relative_errors(gradients, wanted)


def assert_equal(case: Case, *, bound: float = 1e-5) -> None:
    """Loss and every gradient of ``case`` within ``bound`` of the reference."""
    wrong = {name: error for name, error in errors(case).items() if not error < bound}
    assert not wrong, f"{case.strategy.label}: {wrong}"
