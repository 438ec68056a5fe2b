"""Rules on the sequence and on attention: context against tokens, heads and kernels."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors, near_multiples, nearest
from lcplan.strategy import GROUP_SCHEME_NAMES, RING_SCHEMES, SCHEME_FACTS, Strategy
from lcplan.strategy.attention_kernel import SPLASH_LANES
from planner.rules.interface import Mask, Rule, code


def _sequence(setting: Setting, table: StrategyTable) -> Mask:
    return setting.workload.seq_len % (table.context * table.tensor) != 0


def _say_sequence(setting: Setting, strategy: Strategy) -> str:
    seq, mesh = setting.workload.seq_len, strategy.mesh
    axes = f"context={mesh.context}" if mesh.tensor == 1 else f"context x tensor = {mesh.context * mesh.tensor}"
    ranks = mesh.context * mesh.tensor
    ways = f"use {near_divisors(seq, ranks, limit=setting.hardware.devices)}, or a sequence of {near_multiples(ranks, seq)}"
    return f"{axes} does not divide seq_len={seq} tokens; {ways} tokens"


def _zigzag(setting: Setting, table: StrategyTable) -> Mask:
    halves = table.scheme_has(lambda facts: facts.balanced)
    return np.asarray(halves & (setting.workload.seq_len % (2 * np.maximum(table.context // table.ulysses, 1)) != 0))


def _say_zigzag(setting: Setting, strategy: Strategy) -> str:
    chunks, seq = 2 * (strategy.mesh.context // strategy.ulysses), setting.workload.seq_len
    counted = "2 x context" if strategy.ulysses == 1 else "2 x context / ulysses"
    return (
        f"{strategy.scheme} cuts the sequence into {counted} = {chunks} chunks, which does not divide seq_len={seq} tokens; "
        f"use scheme=ring, or a sequence of {near_multiples(chunks, seq)} tokens"
    )


def _ulysses(setting: Setting, table: StrategyTable) -> Mask:
    model = setting.model
    exchange = table.scheme_has(lambda facts: facts.sees_whole_sequences)
    heads = np.maximum(model.heads // table.tensor, 1)
    kv_heads = np.maximum(model.kv_heads // table.tensor, 1)
    kv_fit = (kv_heads % table.context == 0) | (table.context % kv_heads == 0)
    return exchange & ~((heads % table.context == 0) & kv_fit)


def _say_ulysses(setting: Setting, strategy: Strategy) -> str:
    model, mesh = setting.model, strategy.mesh
    heads, kv_heads = model.heads // mesh.tensor, max(model.kv_heads // mesh.tensor, 1)
    return (
        f"{strategy.scheme} splits heads over context={mesh.context}, but a tensor rank has {heads} query and {kv_heads} "
        "key/value heads; context must "
        "divide the query heads, and divide or be a multiple of the key/value heads: use a smaller context, or a ring scheme"
    )


def _exchange(setting: Setting, table: StrategyTable) -> Mask:
    size = table.ulysses
    between = (size > 1) & (size < table.context) & (table.context % size == 0)
    heads = np.maximum(setting.model.heads // table.tensor, 1)
    kv_heads = np.maximum(setting.model.kv_heads // table.tensor, 1)
    fits = (heads % size == 0) & ((kv_heads % size == 0) | (size % kv_heads == 0))
    return np.asarray(np.where(table.scheme_has(lambda facts: facts.groups), ~(between & fits), size != 1))


def _say_exchange(setting: Setting, strategy: Strategy) -> str:
    model, mesh, size = setting.model, strategy.mesh, strategy.ulysses
    if not SCHEME_FACTS[strategy.scheme].groups or mesh.context == 1:
        where = f"scheme={strategy.scheme}" if mesh.context > 1 else "context=1"
        return f"ulysses={size} with {where}: only {GROUP_SCHEME_NAMES} exchanges heads among a part of context; use ulysses=1"
    heads, kv_heads = model.heads // mesh.tensor, max(model.kv_heads // mesh.tensor, 1)
    ways = [
        e
        for e in range(2, mesh.context)
        if mesh.context % e == 0 and heads % e == 0 and (kv_heads % e == 0 or e % kv_heads == 0)
    ]
    way = f"use {nearest(ways, size)}" if ways else "use another scheme"
    return (
        f"ulysses={size} must divide context={mesh.context} into more than one group of more than one rank, divide the "
        f"{heads} query heads of a tensor rank, and divide or be a multiple of its {kv_heads} key/value heads; {way}"
    )


def _bidirectional(setting: Setting, table: StrategyTable) -> Mask:
    on = table.bidirectional == code("bidirectional", "on")
    rings = table.scheme_has(lambda facts: facts.rings)
    heads = np.maximum(setting.model.kv_heads // (table.tensor * table.ulysses), 1)
    return np.asarray(on & ~(rings & (heads % 2 == 0)))


def _say_bidirectional(setting: Setting, strategy: Strategy) -> str:
    mesh = strategy.mesh
    if strategy.scheme not in RING_SCHEMES or mesh.context == 1:
        where = f"scheme={strategy.scheme}" if mesh.context > 1 else "context=1"
        return f"bidirectional=on with {where}: only a ring has two directions; use {', '.join(RING_SCHEMES)}"
    heads = max(1, setting.model.kv_heads // (mesh.tensor * strategy.ulysses))
    return (
        f"bidirectional=on sends half of a rank's key/value heads each way, and of {setting.model.kv_heads} heads "
        f"tensor={mesh.tensor}, ulysses={strategy.ulysses} leave it {heads}; use bidirectional=off, or fewer ranks that split "
        "heads"
    )


def _tiles(setting: Setting, table: StrategyTable) -> Mask:
    block = table.attention_block
    if setting.kernel == "splash":
        return np.asarray(block % SPLASH_LANES != 0)
    return np.asarray((block != 0) & (setting.kernel != "blockwise"))


def _say_tiles(setting: Setting, strategy: Strategy) -> str:
    block = strategy.attention_block
    if setting.kernel == "splash":
        ways = near_multiples(SPLASH_LANES, block)
        return f"attention_block={block} is no multiple of the {SPLASH_LANES} lanes that splash's tiles are made of; use {ways}"
    return f"attention_block={block}: kernel {setting.kernel} chooses its own tiles; use attention_block=0"


ATTENTION_RULES: tuple[Rule, ...] = (
    Rule("sequence", "mesh", _sequence, _say_sequence),
    Rule("zigzag-chunks", "knob", _zigzag, _say_zigzag),
    Rule("ulysses-heads", "knob", _ulysses, _say_ulysses),
    Rule("exchange", "knob", _exchange, _say_exchange),
    Rule("attention-block", "knob", _tiles, _say_tiles),
    Rule("bidirectional", "knob", _bidirectional, _say_bidirectional),
)
