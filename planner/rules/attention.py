"""Rules on the sequence and on attention: context against tokens, heads and kernels."""

from __future__ import annotations

import numpy as np

from cost_models.setting import Setting
from cost_models.table import StrategyTable
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule, code


def _sequence(setting: Setting, table: StrategyTable) -> Mask:
    return setting.workload.seq_len % (table.context * table.tensor) != 0


def _say_sequence(setting: Setting, strategy: Strategy) -> str:
    seq, mesh = setting.workload.seq_len, strategy.mesh
    axes = f"context={mesh.context}" if mesh.tensor == 1 else f"context x tensor = {mesh.context * mesh.tensor}"
    largest = seq & -seq
    way = f"use powers of two up to {largest}" if largest > 1 else "make the sequence even"
    return f"{axes} does not divide seq_len={seq} tokens; {way}"


def _zigzag(setting: Setting, table: StrategyTable) -> Mask:
    zigzag = (table.scheme == code("scheme", "ring-zigzag")) & (table.context > 1)
    return zigzag & (setting.workload.seq_len % (2 * table.context) != 0)


def _say_zigzag(setting: Setting, strategy: Strategy) -> str:
    context, seq = strategy.mesh.context, setting.workload.seq_len
    return (
        f"ring-zigzag cuts the sequence into 2 x context = {2 * context} chunks, which does not divide seq_len={seq} tokens; "
        f"use scheme=ring, or a multiple of {2 * context} tokens"
    )


def _ulysses(setting: Setting, table: StrategyTable) -> Mask:
    model = setting.model
    ulysses = (table.scheme == code("scheme", "ulysses")) & (table.context > 1)
    heads = np.maximum(model.heads // table.tensor, 1)
    kv_heads = np.maximum(model.kv_heads // table.tensor, 1)
    kv_fit = (kv_heads % table.context == 0) | (table.context % kv_heads == 0)
    return ulysses & ~((heads % table.context == 0) & kv_fit)


def _say_ulysses(setting: Setting, strategy: Strategy) -> str:
    model, mesh = setting.model, strategy.mesh
    heads, kv_heads = model.heads // mesh.tensor, max(model.kv_heads // mesh.tensor, 1)
    return (
        f"ulysses splits heads over context={mesh.context}, but a tensor rank has {heads} query and {kv_heads} "
        "key/value heads; context must "
        "divide the query heads, and divide or be a multiple of the key/value heads: use a smaller context, or a ring scheme"
    )


ATTENTION_RULES: tuple[Rule, ...] = (
    Rule("sequence", "mesh", _sequence, _say_sequence),
    Rule("zigzag-chunks", "knob", _zigzag, _say_zigzag),
    Rule("ulysses-heads", "knob", _ulysses, _say_ulysses),
)
