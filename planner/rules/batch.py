"""Rules on the batch: sequences against data, fsdp and microbatches, tokens against the loss chunk."""

from __future__ import annotations

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors, near_multiples
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule


def _batch(setting: Setting, table: StrategyTable) -> Mask:
    return setting.workload.global_batch % (table.data * table.fsdp * table.expert) != 0


def _ranks(strategy: Strategy) -> tuple[str, int]:
    """The axes over which sequences are split, and their ranks."""
    mesh = strategy.mesh
    return "data x fsdp" + " x expert" * (mesh.expert > 1), mesh.data * mesh.fsdp * mesh.expert


def _say_batch(setting: Setting, strategy: Strategy) -> str:
    batch, (axes, ranks) = setting.workload.global_batch, _ranks(strategy)
    return (
        f"{axes} = {ranks} does not divide global_batch={batch} sequences; "
        f"use {near_divisors(batch, ranks, limit=setting.hardware.devices)}, or --global-batch {near_multiples(ranks, batch)}"
    )


def _microbatches(setting: Setting, table: StrategyTable) -> Mask:
    uneven = setting.workload.global_batch % (table.data * table.fsdp * table.expert * table.microbatches) != 0
    return uneven & ~_batch(setting, table)


def _say_microbatches(setting: Setting, strategy: Strategy) -> str:
    batch, (axes, ranks) = setting.workload.global_batch, _ranks(strategy)
    ways = near_divisors(max(batch // ranks, 1), strategy.microbatches)
    return (
        f"microbatches={strategy.microbatches} does not divide the {batch / ranks:g} sequences of a {axes} rank "
        f"(global_batch={batch} over {ranks}); use {ways}"
    )


def _loss_chunk(setting: Setting, table: StrategyTable) -> Mask:
    local = setting.workload.seq_len // table.context
    whole = (local % table.loss_chunk_tokens == 0) & (table.loss_chunk_tokens % table.tensor == 0)
    return ~whole


def _say_loss_chunk(setting: Setting, strategy: Strategy) -> str:
    local, tensor = setting.workload.seq_len // strategy.mesh.context, strategy.mesh.tensor
    return (
        f"loss_chunk_tokens={strategy.loss_chunk_tokens} must divide the {local} tokens of a context rank and be a multiple of "
        f"tensor={tensor}; use {near_divisors(local, strategy.loss_chunk_tokens, step=tensor)}"
    )


BATCH_RULES: tuple[Rule, ...] = (
    Rule("batch", "mesh", _batch, _say_batch),
    Rule("microbatches", "knob", _microbatches, _say_microbatches),
    Rule("loss-chunk", "knob", _loss_chunk, _say_loss_chunk),
)
