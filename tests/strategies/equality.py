"""Holding a step's loss and gradients against the single-device reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from reference import reference_loss
from stacks import cut, joined, staged, unstaged

from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from strategies.inputs.policy import PolicyObjective
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.schemes.layout import token_order
from strategies.train.step import Batch, TrainStep, build_step

LAYOUTS = ("whole", "uneven", "crossing", "short", "any ids")
"""Documents of a sequence: one, ``UNEVEN``, cut anywhere, every few tokens, cut anywhere with ids in no order."""
UNEVEN = (1, 3, 13, 2, 1, 12)
"""Documents of one token, across borders of chunks, and longer than a chunk of 8; each sequence starts with another."""


@dataclass(frozen=True)
class Case:
    """One comparison: the model, the workload's size and the strategy."""

    model: ModelSpec
    strategy: Strategy
    seq_len: int = 32
    global_batch: int = 4
    precision: str = "fp32"
    documents: str | None = None

    def spec(self) -> StepSpec:
        workload = Workload(
            seq_len=self.seq_len,
            global_batch=self.global_batch,
            precision=self.precision,
            document_len=None if self.documents is None else 4,
        )
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
def random_documents(layout: str | None, global_batch: int, seq_len: int) -> np.ndarray | None:
    """Ids of each token's document, in order; borders differ between the sequences."""
    if layout is None:
        return None
    if layout == "uneven":
        turned = (np.roll(UNEVEN, -sequence) for sequence in range(global_batch))
        cut = [np.repeat(np.arange(len(lengths)), lengths) for lengths in turned]
        return np.stack([np.resize(ids, seq_len) for ids in cut]).astype(np.int32)
    rng = np.random.default_rng(2)
    share = {"whole": 0.0, "crossing": 0.1, "short": 0.5, "any ids": 0.2}[layout]
    ids = np.cumsum(rng.random((global_batch, seq_len)) < share, axis=1)
    if layout == "any ids":
        ids = rng.permutation(seq_len + 1)[ids]
    return ids.astype(np.int32)


@cache
def reference(model: ModelSpec, global_batch: int, seq_len: int, layout: str | None = None) -> tuple[float, dict[str, Any]]:
    """Loss and gradients of the reference, fp32."""
    tokens, targets = random_tokens(model, global_batch, seq_len)
    ids = random_documents(layout, global_batch, seq_len)
    value_and_grad = jax.jit(
        jax.value_and_grad(lambda params: reference_loss(params, tokens, targets, model=model, documents=ids))
    )
    loss, gradients = value_and_grad(random_params(model))
    return float(loss), jax.tree.map(np.asarray, gradients)


def _step(case: Case, objective: PolicyObjective | None = None) -> TrainStep:
    spec = replace(case.spec(), objective=objective)
    return build_step(spec, build_mesh(case.strategy, jax.devices()[: case.strategy.devices]))


def computed(
    case: Case, *, objective: PolicyObjective | None = None, given: tuple[Any, Any, Any] | None = None
) -> tuple[float, dict[str, Any]]:
    """Loss and gradients of the step on its mesh; ``given``: tokens, targets and values of a policy, in order."""
    step = _step(case, objective)
    tokens, targets, policy = given or (*random_tokens(case.model, case.global_batch, case.seq_len), None)
    order = token_order(case.strategy, seq_len=case.seq_len)
    abstract, batch = step.abstract_arguments()
    shardings = jax.tree.map(lambda shape: shape.sharding, (abstract.params, batch))
    own = cut(random_params(case.model), nnx.to_pure_dict(abstract.params), model=case.model)
    own = staged(own, strategy=case.strategy)
    params = jax.tree.unflatten(jax.tree.structure(abstract.params), jax.tree.leaves(own))
    ids = random_documents(case.documents, case.global_batch, case.seq_len)
    whole = Batch(tokens, targets, ids, policy)
    arguments = jax.device_put((params, jax.tree.map(lambda x: jnp.asarray(x[:, order]), whole)), shardings)
    loss, gradients = jax.jit(step.loss_and_gradients)(*arguments)
    found = jax.tree.map(np.asarray, nnx.to_pure_dict(gradients))
    found = unstaged(found, random_params(case.model), strategy=case.strategy)
    return float(loss), joined(found, random_params(case.model), model=case.model)


def relative_errors(got: Any, wanted: Any) -> dict[str, float]:
    """Norm of the difference over the norm, by parameter."""
    pairs = jax.tree_util.tree_leaves_with_path(
        jax.tree.map(lambda a, b: (a, b), got, wanted), is_leaf=lambda x: isinstance(x, tuple)
    )
    return {jax.tree_util.keystr(path): float(np.linalg.norm(a - b) / np.linalg.norm(b)) for path, (a, b) in pairs}


def errors(case: Case) -> dict[str, float]:
    """Relative errors of the loss and of every gradient against the fp32 reference."""
    wanted_loss, wanted = reference(case.model, case.global_batch, case.seq_len, case.documents)
    loss, gradients = computed(case)
    assert jax.tree.structure(gradients) == jax.tree.structure(wanted)
    return {"loss": abs(loss / wanted_loss - 1)} | relative_errors(gradients, wanted)


def assert_equal(case: Case, *, bound: float = 1e-5) -> None:
    """Loss and every gradient of ``case`` within ``bound`` of the reference."""
    wrong = {name: error for name, error in errors(case).items() if not error < bound}
    assert not wrong, f"{case.strategy.label}: {wrong}"
