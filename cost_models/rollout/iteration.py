"""estimate_iteration: a rollout and then the train step on its tokens, on the same devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cost_models.collectives.group_span import span_of
from cost_models.collectives.network import call_cost
from cost_models.estimate import EstimateTable, estimate
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.memory.parts import PHASES
from cost_models.parts.memory import STEP_MEMORY
from cost_models.parts.time import RESHARD
from cost_models.rates.published import rates_for
from cost_models.rollout.estimate import RolloutEstimate, estimate_rollout
from cost_models.rollout.layout import Rollout
from cost_models.rollout.memory import ROLLOUT_PHASES
from cost_models.rollout.table import RolloutTable
from lcplan.strategy import Strategy

RESIDENT = tuple(part.key for part in STEP_MEMORY if part.kind == "state")
"""Parts of the train step that stay on the devices while the rollout runs; its cache is freed before the step."""
ITERATION_PHASES = (*PHASES, *(f"rollout_{name}" for name in ROLLOUT_PHASES))


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

    Memory is the larger of the train step's and the rollout's with the train state resident; time is the sum of rollout,
    resharding of the parameters to the rollout's layout, and train step.

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
    Source: ``estimate`` and ``estimate_rollout``; ``reshard_seconds``.
    """
    work = setting.workload
    assert work.train is not None, "an iteration has a train step"
    assert work.sample is not None, "an iteration has a rollout"
    train = estimate(replace(setting, workload=work.train), table.trained)
    sample_setting = replace(setting, workload=work.sample)
    rollout = estimate_rollout(sample_setting, table)
    memory, total, sampling = _memory(train, rollout, table)
    times = {f"train_{name}": column for name, column in train.time_s.items()}
    times |= {f"rollout_{name}": column for name, column in rollout.time_s.items()}
    times[RESHARD.key] = reshard_seconds(sample_setting, table)
    seconds = train.step_s + rollout.step_s + times[RESHARD.key]
    allowance = np.maximum(train.allowance_bytes, rollout.allowance_bytes)
    share = train.step_s / seconds
    return RolloutEstimate(
        **{
            **vars(train),
            "memory_bytes": memory,
            "total_bytes": total,
            "allowance_bytes": allowance,
            "phase": np.where(sampling, rollout.phase + len(PHASES), train.phase).astype(np.int8),
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
                "rollout_bytes": _rollout_total(train, rollout, table),
            },
        }
    )


def _rollout_total(train: EstimateTable, rollout: EstimateTable, table: IterationTable) -> Floats:
    """The rollout's memory with the train state resident; the shards that it gathers belong to the train state."""
    shared = table.is_layout("gathered-once", "gathered-per-step") * rollout.memory_bytes["params"]
    resident = sum((train.memory_bytes[name] for name in RESIDENT), start=np.zeros(len(table)))
    return np.asarray(resident + rollout.total_bytes - shared)


def _memory(
    train: EstimateTable, rollout: EstimateTable, table: IterationTable
) -> tuple[dict[str, Floats], Floats, np.ndarray]:
    """Parts of the larger of the two, their sum, and where the rollout is the larger."""
    rollout_total = _rollout_total(train, rollout, table)
    sampling = rollout_total > train.total_bytes
    shared = table.is_layout("gathered-once", "gathered-per-step")
    parts = {name: np.where(sampling & (name not in RESIDENT), 0.0, column) for name, column in train.memory_bytes.items()}
    for name, column in rollout.memory_bytes.items():
        own = np.where(shared, 0.0, column) if name == "params" else column
        parts[f"rollout_{name}"] = np.where(sampling, own, 0.0)
    return parts, np.maximum(rollout_total, train.total_bytes), sampling


def reshard_seconds(setting: Setting, table: IterationTable) -> Floats:
    """Time to gather the trained shards to a rollout's whole matrices, once per iteration.

    An all-gather over the rollout's data axis of ``g P / t`` bytes; the gathers of the other layouts are the rollout's own.

    Parameters
    ----------
    setting : Setting
        Model, machine and the rollout's workload.
    table : IterationTable
        Rollouts with their train strategies.

    Returns
    -------
    ndarray, shape [n]
        Time [s per iteration].

    Notes
    -----
    Source: ``cost_models.collectives.network``.
    """
    rollout = Rollout(setting, table)
    span = span_of(rollout.layout, ("data",))
    cost = call_cost("all-gather", span, hardware=setting.hardware, rates=rates_for(setting))
    size = rollout.layout.gather_bytes * rollout.matrix_elements
    moved = table.is_layout("replicated", "tensor-sharded") & (span.members > 1)
    return np.where(moved, cost.seconds(size), 0.0)
