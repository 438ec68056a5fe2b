"""estimate_iteration: a rollout and then the policy update on its tokens, on the same devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cost_models.estimate import EstimateTable, estimate
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.memory.parts import PHASES
from cost_models.parts.memory import REFERENCE, STEP_MEMORY
from cost_models.parts.time import RESHARD, SCORING
from cost_models.rollout.estimate import RolloutEstimate, estimate_rollout
from cost_models.rollout.layout import FP32_BYTES
from cost_models.rollout.memory import ROLLOUT_PHASES
from cost_models.rollout.reshard import reshard_cost
from cost_models.rollout.table import RolloutTable
from cost_models.time.forward import forward_seconds
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import Strategy

RESIDENT = tuple(part.key for part in (*STEP_MEMORY, REFERENCE) if part.kind == "state")
"""Parts of the train step that stay on the devices while the rollout runs; its cache is freed before the step."""
ITERATION_PHASES = (*PHASES, *(f"rollout_{name}" for name in ROLLOUT_PHASES), "reshard")


@dataclass(frozen=True)
class IterationTable(RolloutTable):
    """Train strategies, each with the rollout that it alternates with."""

    def take(self, indices: Any) -> IterationTable:
        """The rows that ``indices`` picks, in that order."""
        return IterationTable(**{name: getattr(self, name)[indices] for name in self.__dataclass_fields__})

    def strategy(self, i: int) -> Strategy:
        """Row ``i``."""
        strategy = super().strategy(i)
        assert strategy.sampling is not None, "a row of a rollout"
        return strategy.model_copy(update={"sampling": strategy.sampling.model_copy(update={"beside_training": True})})


def estimate_iteration(setting: Setting, table: IterationTable) -> EstimateTable:
    """Price every iteration.

    Memory is the larger of the update's and the rollout's, each with the state of the other resident; time is the sum of
    rollout, resharding of the parameters to the rollout's layout, scoring, and update.

    Parameters
    ----------
    setting : Setting
        Model, machine, an ``rl`` workload, and budget [bytes].
    table : IterationTable
        Train strategies with their rollouts.

    Returns
    -------
    EstimateTable
        Memory [bytes per device], time [s per iteration], throughput in generated tokens; shape ``[n]``.

    Notes
    -----
    Source: ``estimate`` and ``estimate_rollout``; ``forward_seconds``; ``reshard_cost``. A scoring pass needs less memory
    than the update, which has a forward pass of the same microbatch and keeps its activations.
    """
    work = setting.workload
    assert isinstance(work, RlWorkload), "an iteration of reinforcement learning"
    train_setting, sample_setting = replace(setting, workload=work.train), replace(setting, workload=work.sample)
    train = _with_policy(work, estimate(train_setting, table.trained), Layout(train_setting, table.trained))
    rollout = estimate_rollout(sample_setting, table)
    move = reshard_cost(sample_setting, table)
    sampled = _Sampling(train, rollout, move.copied_bytes, table.in_place)
    memory, total, phase = _memory(train, sampled)
    times = {f"train_{name}": column for name, column in train.time_s.items()}
    times |= {f"rollout_{name}": column for name, column in rollout.time_s.items()}
    passes = len(work.scorings)
    times[SCORING.key] = passes * forward_seconds(train_setting, table.trained) if passes else np.zeros(len(table))
    times[RESHARD.key] = move.seconds
    seconds = train.step_s + rollout.step_s + times[SCORING.key] + times[RESHARD.key]
    allowance = np.maximum(train.allowance_bytes, rollout.allowance_bytes)
    share = train.step_s / seconds
    return RolloutEstimate(
        **{
            **vars(train),
            "memory_bytes": memory,
            "total_bytes": total,
            "allowance_bytes": allowance,
            "phase": phase,
            "time_s": times,
            "step_s": seconds,
            "tokens_per_s": work.tokens / seconds,
            "tflop_per_s_per_device": train.tflop_per_s_per_device * share,
            "full_attention_tflop_per_s_per_device": train.full_attention_tflop_per_s_per_device * share,
            "hardware_tflop_per_s_per_device": train.hardware_tflop_per_s_per_device * share,
            "mfu_ratio": train.mfu_ratio * share,
            "fits": total + allowance <= setting.budget_bytes,
            "phases": ITERATION_PHASES,
            "extra": {
                "train_step_s": train.step_s,
                "rollout_s": rollout.step_s,
                "train_bytes": train.total_bytes,
                "rollout_bytes": sampled.total,
            },
        }
    )


def _with_policy(work: RlWorkload, train: EstimateTable, layout: Layout) -> EstimateTable:
    """The update's memory: with the values of each token, and the parameters of a reference model.

    Advantages, old log-probabilities and with a KL term the reference's are fp32; the reference's matrices have the gather
    dtype and the shards of the policy's.
    """
    arrays = 3.0 if work.kl_coefficient else 2.0
    values = FP32_BYTES * arrays * layout.tokens * layout.microbatches
    vectors = float(layout.setting.model.vector_parameters)
    matrices = (layout.setting.model.parameters - vectors) / layout.state_shards
    held = (layout.gather_bytes * matrices + FP32_BYTES * vectors) * (work.kl_coefficient > 0)
    parts = {**train.memory_bytes, "batch": train.memory_bytes["batch"] + values, REFERENCE.key: held}
    return replace(train, memory_bytes=parts, total_bytes=train.total_bytes + values + held)


@dataclass(frozen=True)
class _Sampling:
    """The rollout's memory with the train state resident; columns of shape ``[n]`` in bytes per device.

    The parameters are moved before anything is sampled, so the move's copies and the cache are not there together. Shards
    that a rollout gathers in place belong to the train state.
    """

    train: EstimateTable
    rollout: EstimateTable
    moved: Floats
    """Copies of the parameters while they are moved."""
    in_place: np.ndarray

    @property
    def total(self) -> Floats:
        """All of it."""
        resident = sum((self.train.memory_bytes[name] for name in RESIDENT), start=np.zeros(len(self.moved)))
        return np.asarray(resident + self._params + np.maximum(self._held, self.moved))

    @property
    def moves(self) -> np.ndarray:
        """Rows in which the move needs more than the rollout."""
        return np.asarray(self.moved > self._held)

    def parts(self) -> dict[str, Floats]:
        """The rollout's own parts at the moment that needs most."""
        parts = {name: np.where(self.moves, 0.0, column) for name, column in self.rollout.memory_bytes.items()}
        copies = np.where(self.moves, self.moved, parts["gathered_weights"])
        return parts | {"params": self._params, "gathered_weights": copies}

    @property
    def _params(self) -> Floats:
        return np.where(self.in_place, 0.0, self.rollout.memory_bytes["params"])

    @property
    def _held(self) -> Floats:
        return self.rollout.total_bytes - self.rollout.memory_bytes["params"]


def _memory(train: EstimateTable, sampled: _Sampling) -> tuple[dict[str, Floats], Floats, np.ndarray]:
    """Parts of the larger of the two, their sum, and the binding moment's index into ``ITERATION_PHASES``."""
    sampling = sampled.total > train.total_bytes
    parts = {name: np.where(sampling & (name not in RESIDENT), 0.0, column) for name, column in train.memory_bytes.items()}
    parts |= {f"rollout_{name}": np.where(sampling, column, 0.0) for name, column in sampled.parts().items()}
    own = np.where(sampled.moves, len(ITERATION_PHASES) - 1, sampled.rollout.phase + len(PHASES))
    phase = np.where(sampling, own, train.phase).astype(np.int8)
    return parts, np.maximum(sampled.total, train.total_bytes), phase
