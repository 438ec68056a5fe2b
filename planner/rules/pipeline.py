"""Rules on pipelines: the limits of lcplan's own step (strategies/pipeline/limits.py refuses the same)."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.program import STEP
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors
from lcplan.strategy import BUILT_SCHEDULES, VIRTUAL_SCHEDULES, Strategy
from lcplan.strategy.remat import OFFLOAD_PERCENT
from planner.rules.interface import Mask, Rule, code


def _codes(column: str, names: tuple[str, ...]) -> list[int]:
    return [code(column, name) for name in names]


def _program(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.pipe > 1) & (setting.program != STEP))


def _say_program(setting: Setting, strategy: Strategy) -> str:
    return f"pipe={strategy.mesh.pipe}: a trainer's pipeline has no price yet, only that of lcplan's own step; use pipe=1"


def _built(setting: Setting, table: StrategyTable) -> Mask:
    piped = table.pipe > 1
    return np.asarray(piped & ~np.isin(table.schedule, _codes("schedule", BUILT_SCHEDULES)))


def _say_built(setting: Setting, strategy: Strategy) -> str:
    return f"schedule={strategy.schedule} is not built in lcplan's own step; use {', '.join(BUILT_SCHEDULES)}"


def _mode(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.pipe > 1) & (table.sharding_mode != code("sharding_mode", "manual")))


def _say_mode(setting: Setting, strategy: Strategy) -> str:
    return (
        f"pipe={strategy.mesh.pipe} with sharding_mode={strategy.sharding_mode}: stages are written out by hand; "
        "use sharding_mode=manual"
    )


def _state(setting: Setting, table: StrategyTable) -> Mask:
    """Stages add their microbatches' gradients up in the dtype of the weights, which has to be fp32."""
    fp32 = (table.master_dtype == code("master_dtype", "fp32")) & (table.grad_dtype == code("grad_dtype", "fp32"))
    return np.asarray((table.pipe > 1) & ~fp32)


def _say_state(setting: Setting, strategy: Strategy) -> str:
    return (
        f"pipe={strategy.mesh.pipe} with master_dtype={strategy.master_dtype} and grad_dtype={strategy.grad_dtype}: stages add "
        "gradients up in the dtype of the weights; use master_dtype=fp32 and grad_dtype=fp32"
    )


def _offload(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.pipe > 1) & (table.offload_percent != OFFLOAD_PERCENT))


def _say_offload(setting: Setting, strategy: Strategy) -> str:
    return (
        f"offload_percent={strategy.offload_percent} with pipe={strategy.mesh.pipe}: all layers of a stage offload; "
        f"use {OFFLOAD_PERCENT}"
    )


def _kinds(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.pipe > 1) & (len(setting.model.layer_runs) > 1))


def _say_kinds(setting: Setting, strategy: Strategy) -> str:
    model = setting.model
    return (
        f"pipe={strategy.mesh.pipe}: {model.name} has {len(model.layer_runs)} runs of layers of different kinds, "
        "and all stages run one program; use pipe=1"
    )


def _stages(setting: Setting, table: StrategyTable) -> Mask:
    repeats = max(run.repeats for run in setting.model.layer_runs)
    return np.asarray((table.pipe > 1) & (table.pipe * table.virtual_stages > repeats))


def _say_stages(setting: Setting, strategy: Strategy) -> str:
    repeats, stages = max(run.repeats for run in setting.model.layer_runs), strategy.mesh.pipe * strategy.virtual_stages
    return (
        f"pipe x virtual_stages = {stages} is more than the {repeats} iterations of the layers of {setting.model.name}; "
        f"use at most {repeats}"
    )


def _chunks(setting: Setting, table: StrategyTable) -> Mask:
    """Interleaved schedules have several chunks, and no others have."""
    several = np.isin(table.schedule, _codes("schedule", VIRTUAL_SCHEDULES))
    one = table.virtual_stages == 1
    alone = table.schedule == code("schedule", "interleaved")
    built = np.isin(table.schedule, _codes("schedule", BUILT_SCHEDULES))
    return np.asarray((table.pipe > 1) & built & ((~several & ~one) | (alone & one)))


def _say_chunks(setting: Setting, strategy: Strategy) -> str:
    if strategy.virtual_stages == 1:
        return "schedule=interleaved with virtual_stages=1 is schedule=1f1b; use it, or virtual_stages of 2 or more"
    several = "circular" if strategy.schedule == "gpipe" else "interleaved"
    return (
        f"virtual_stages={strategy.virtual_stages} with schedule={strategy.schedule}; "
        f"use schedule={several}, or virtual_stages=1"
    )


def _groups(setting: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.pipe > 1) & (table.virtual_stages > 1) & (table.microbatches % table.pipe != 0))


def _say_groups(setting: Setting, strategy: Strategy) -> str:
    pipe = strategy.mesh.pipe
    return (
        f"pipe={pipe} does not divide microbatches={strategy.microbatches}, and with "
        f"virtual_stages={strategy.virtual_stages} they pass in groups of {pipe}; use a multiple of {pipe}, or virtual_stages=1"
    )


def _tables(setting: Setting, table: StrategyTable) -> Mask:
    shards = table.fsdp * table.context * table.expert * table.pipe
    return np.asarray((table.pipe > 1) & (setting.model.d_model % shards != 0))


def _say_tables(setting: Setting, strategy: Strategy) -> str:
    mesh, width = strategy.mesh, setting.model.d_model
    shards = mesh.fsdp * mesh.context * mesh.expert * mesh.pipe
    return (
        f"fsdp x context x expert x pipe = {shards} does not divide d_model={width} of {setting.model.name}, along which "
        f"embedding and head are split; use {near_divisors(width, shards, limit=setting.hardware.devices)}"
    )


def _rows(setting: Setting, table: StrategyTable) -> Mask:
    work = setting.workload
    sequences = np.maximum(work.global_batch // (table.data * table.fsdp * table.expert * table.microbatches), 1)
    tokens = sequences * (work.seq_len // table.context)
    return np.asarray((table.pipe > 1) & (tokens % (table.tensor * table.pipe) != 0))


def _say_rows(setting: Setting, strategy: Strategy) -> str:
    mesh, tokens = strategy.mesh, setting.workload.seq_len // strategy.mesh.context
    ways = near_divisors(tokens, mesh.tensor * mesh.pipe, limit=setting.hardware.devices)
    return (
        f"tensor x pipe = {mesh.tensor * mesh.pipe} does not divide the {tokens} tokens of a sequence on a context rank, "
        f"of which each stage embeds its share; use {ways}"
    )


PIPELINE_RULES: tuple[Rule, ...] = (
    Rule("pipeline-program", "mesh", _program, _say_program),
    Rule("pipeline-kinds", "mesh", _kinds, _say_kinds),
    Rule("pipeline-tables", "mesh", _tables, _say_tables),
    Rule("pipeline-schedule", "knob", _built, _say_built),
    Rule("pipeline-mode", "knob", _mode, _say_mode),
    Rule("pipeline-state", "knob", _state, _say_state),
    Rule("pipeline-offload", "knob", _offload, _say_offload),
    Rule("pipeline-stages", "knob", _stages, _say_stages),
    Rule("pipeline-chunks", "knob", _chunks, _say_chunks),
    Rule("pipeline-groups", "knob", _groups, _say_groups),
    Rule("pipeline-rows", "knob", _rows, _say_rows),
)
