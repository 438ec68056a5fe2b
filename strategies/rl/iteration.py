"""The programs of an RL iteration on one mesh, as a training loop calls them: sample, score, update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float

from strategies.inputs.policy import PolicyTokens
from strategies.model.batch import Batch
from strategies.parallel.mesh import build_mesh
from strategies.rl.advantages import group_advantages
from strategies.rl.reshard_step import ReshardSpec, ReshardStep, rollout_spec
from strategies.rl.reshard_step import build_step as build_reshard
from strategies.rl.score_step import TOKENS, ScoreStep, build_score
from strategies.rl.sequences import Sequences
from strategies.rollout.cache import ROWS
from strategies.rollout.prefill_step import PrefillStep
from strategies.rollout.step import SampleStep
from strategies.rollout.step import build_step as build_rollout
from strategies.schemes.layout import token_order
from strategies.train.step import Metrics, TrainState, TrainStep
from strategies.train.step import build_step as build_update

IterationSpec = ReshardSpec
"""Model, ``rl`` workload, strategy with its rollout, and kernel."""


@dataclass(frozen=True)
class Iteration:
    """One iteration: parameters move to the rollout, it samples, sequences are scored, and the policy is updated."""

    spec: IterationSpec
    update: TrainStep
    rollout: SampleStep
    move: ReshardStep | None
    """None where the rollout reads the trained shards in place."""
    old: ScoreStep | None
    reference: ScoreStep | None

    def programs(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Each jitted program with the shapes of its arguments."""
        built = (self.move, PrefillStep(self.rollout), self.rollout, self.old, self.reference, self.update)
        return [(one.jitted, one.abstract_arguments()) for one in built if one is not None]

    def init(self, key: Array) -> tuple[TrainState, nnx.State | None]:
        """A random state, and the reference model: a copy of its parameters, None without a KL term."""
        state = self.update.init(key)
        return state, None if self.reference is None else self.reference.stored(state.params)

    def sample(self, params: nnx.State, prompts_BP: np.ndarray, *, key: Array, lengths_B: Any = None) -> tuple[Any, Any]:
        """Generated tokens B G of each prompt and their log-probabilities, on the host; the same on every process."""
        prompts = _placed(prompts_BP.astype(np.int32), NamedSharding(self.rollout.mesh, ROWS))
        made = self.rollout.sample(self._moved(params), prompts, key=key, lengths_B=lengths_B)
        tokens, log_probs = multihost_utils.process_allgather((made.tokens_BG, made.log_probs_BG), tiled=True)
        return np.asarray(tokens), np.asarray(log_probs)

    def batch(
        self, state: tuple[TrainState, nnx.State | None], sampled: Sequences, log_probs_BG: np.ndarray, advantages_B: Any
    ) -> Batch:
        """The update's batch: old log-probabilities as sampled or recomputed, and those of the reference model."""
        where = NamedSharding(self.update.mesh, TOKENS)
        order = token_order(self.update.spec.strategy, seq_len=self.spec.workload.seq_len)

        def placed(x_BT: np.ndarray) -> Array:
            return _placed(x_BT[:, order], where)

        tokens, targets = placed(sampled.tokens), placed(sampled.targets)
        advantages = np.broadcast_to(np.asarray(advantages_B)[:, None], sampled.tokens.shape).astype(np.float32)
        old = (
            placed(sampled.at_predictions(log_probs_BG))
            if self.old is None
            else self.old.jitted(state[0].params, tokens, targets)
        )
        reference = None if self.reference is None else self.reference.jitted(state[1], tokens, targets)
        return Batch(tokens, targets, None, PolicyTokens(placed(advantages), old, reference))

    def learn(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        """Update the policy; the given state is donated."""
        return self.update.jitted(state, batch)

    def _moved(self, params: nnx.State) -> nnx.State:
        return jax.device_put(params, self.rollout.shardings) if self.move is None else self.move.jitted(params)


def advantages_of(rewards_B: Float[np.ndarray, " B"], *, group: int) -> Float[np.ndarray, " B"]:
    """Rewards relative to their group (``group_advantages``), on the host."""
    return np.asarray(group_advantages(jax.numpy.asarray(rewards_B), group=group))


def build_iteration(spec: IterationSpec, mesh: Mesh) -> Iteration:
    """The programs of ``spec``; ``mesh`` is the update's, and the rollout's is over its devices in the same order.

    Raises
    ------
    BadInputError
        A program cannot run this model, workload or layout; all its reasons at once.
    """
    update, sampled = build_update(spec.update, mesh), rollout_spec(spec)
    rollout = build_rollout(sampled, build_mesh(sampled.strategy, list(mesh.devices.flat)))
    move, scorings = build_reshard(spec, mesh), spec.workload.scorings
    old = build_score(spec.update, mesh, rounded=False) if "old_log_probs" in scorings else None
    reference = build_score(spec.update, mesh, rounded=True) if "reference_log_probs" in scorings else None
    return Iteration(spec, update, rollout, None if _in_place(update, rollout) else move, old, reference)


def _in_place(update: TrainStep, rollout: SampleStep) -> bool:
    """Whether the rollout takes the trained shards as they are."""
    given = jax.tree.leaves(rollout.abstract_arguments()[0])
    trained = jax.tree.leaves(update.abstract_arguments()[0].params)
    return all(
        one.dtype == other.dtype and one.sharding.is_equivalent_to(other.sharding, one.ndim)
        for one, other in zip(given, trained, strict=True)
    )


def _placed(x: np.ndarray, where: NamedSharding) -> Array:
    """An array that every process has, as one array over all devices."""
    return jax.make_array_from_callback(x.shape, where, lambda part: x[part])
