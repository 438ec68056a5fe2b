"""Rules on sharding parameters: which axis sizes divide which dims."""

from __future__ import annotations

from math import gcd

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors, nearest
from lcplan.spec.experts import LatentAttention
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule, code


def _heads(setting: Setting, table: StrategyTable) -> Mask:
    return setting.model.heads % table.tensor != 0


def _say_heads(setting: Setting, strategy: Strategy) -> str:
    model = setting.model
    ways = near_divisors(model.heads, strategy.mesh.tensor, limit=setting.hardware.domain_size)
    return f"tensor={strategy.mesh.tensor} does not divide heads={model.heads} of {model.name}; use {ways}"


def _kv_heads(setting: Setting, table: StrategyTable) -> Mask:
    heads = setting.model.kv_heads
    return (heads % table.tensor != 0) & (table.tensor % heads != 0)


def _say_kv_heads(setting: Setting, strategy: Strategy) -> str:
    model, tensor = setting.model, strategy.mesh.tensor
    sizes = range(1, setting.hardware.domain_size + 1)
    ways = [size for size in sizes if model.kv_heads % size == 0 or size % model.kv_heads == 0]
    return (
        f"tensor={tensor} neither divides kv_heads={model.kv_heads} of {model.name} nor is a multiple of it (where heads "
        f"are replicated); use {nearest(ways, tensor)}"
    )


def _feed_forward(setting: Setting, table: StrategyTable) -> Mask:
    return np.logical_or.reduce([width % table.tensor != 0 for width in setting.model.widths.values()])


def _say_feed_forward(setting: Setting, strategy: Strategy) -> str:
    model, tensor = setting.model, strategy.mesh.tensor
    name, width = next((name, width) for name, width in model.widths.items() if width % tensor)
    ways = near_divisors(gcd(*model.widths.values()), tensor, limit=setting.hardware.domain_size)
    return f"tensor={tensor} does not divide {name}={width} of {model.name}; use {ways}"


def _vocabulary(setting: Setting, table: StrategyTable) -> Mask:
    return setting.model.vocab % table.tensor != 0


def _say_vocabulary(setting: Setting, strategy: Strategy) -> str:
    model, tensor = setting.model, strategy.mesh.tensor
    padded = -(-model.vocab // tensor) * tensor
    return (
        f"tensor={tensor} does not divide vocab={model.vocab} of {model.name}; use "
        f"{near_divisors(model.vocab, tensor, limit=setting.hardware.domain_size)}, "
        f"or pad the vocabulary to {padded} in a model spec of your own"
    )


def _pads(setting: Setting) -> bool:
    """Whether the program's shards may be uneven: PyTorch's FSDP and Megatron's and DeepSpeed's flat buffers pad the last."""
    return setting.program.runtime == "torch"


def _state(setting: Setting, table: StrategyTable) -> Mask:
    if _pads(setting):
        return np.zeros(len(table), dtype=np.bool_)
    over_tensor = (table.tensor > setting.model.kv_heads) | (setting.model.experts is not None)
    shards = table.fsdp * table.context * table.expert * np.where(over_tensor, table.tensor, 1)
    return setting.model.d_model % shards != 0


def _say_state(setting: Setting, strategy: Strategy) -> str:
    model, mesh = setting.model, strategy.mesh
    over_tensor = mesh.tensor > model.kv_heads or model.experts is not None
    axes = " x ".join(("fsdp", "context", *("expert",) * (mesh.expert > 1), *("tensor",) * over_tensor))
    shards = mesh.fsdp * mesh.context * mesh.expert * (mesh.tensor if over_tensor else 1)
    return (
        f"{axes} = {shards} does not divide d_model={model.d_model} of {model.name}, whose rows they shard; "
        f"use {near_divisors(model.d_model, shards, limit=setting.hardware.devices)}"
    )


def _latent(setting: Setting, table: StrategyTable) -> Mask:
    latent = setting.model.latent
    if latent is None:
        return np.zeros(len(table), dtype=np.bool_)
    shards = table.fsdp * table.context * table.expert
    return np.logical_or.reduce([rank % shards != 0 for rank in _ranks(latent)])


def _ranks(latent: LatentAttention) -> tuple[int, ...]:
    return (latent.kv_rank,) if latent.query_rank is None else (latent.query_rank, latent.kv_rank)


def _say_latent(setting: Setting, strategy: Strategy) -> str:
    latent, mesh = setting.model.latent, strategy.mesh
    assert latent is not None
    ranks = _ranks(latent)
    names = " and ".join(f"{name}={rank}" for name, rank in zip(("query_rank", "kv_rank")[-len(ranks) :], ranks, strict=True))
    shards = mesh.fsdp * mesh.context * mesh.expert
    return (
        f"fsdp x context x expert = {shards} does not divide {names} of {setting.model.name},"
        " by which the matrices that expand queries, keys and values are split; "
        f"use {near_divisors(gcd(*ranks), shards, limit=setting.hardware.devices)}"
    )


def _experts(setting: Setting, table: StrategyTable) -> Mask:
    experts = setting.model.experts
    return table.expert > 1 if experts is None else experts.count % table.expert != 0


def _say_experts(setting: Setting, strategy: Strategy) -> str:
    model, size = setting.model, strategy.mesh.expert
    if model.experts is None:
        return f"expert={size}: {model.name} is dense and has no experts to split; use expert=1"
    ways = near_divisors(model.experts.count, size, limit=setting.hardware.devices)
    return f"expert={size} does not divide the {model.experts.count} experts of {model.name}; use {ways}"


def _fold(setting: Setting, table: StrategyTable) -> Mask:
    """Expert ranks that are folded: of a mixture on GPUs, without an expert axis, dividing the experts and the ranks."""
    experts, folded = setting.model.experts, table.expert_fold > 1
    if experts is None or setting.hardware.kind == "tpu":
        return np.asarray(folded)
    whole = table.expert_tensor == code("expert_tensor", "whole")
    ranks = table.fsdp * table.context * np.where(whole, table.tensor, 1)
    divided = (experts.count % table.expert_fold == 0) & (ranks % table.expert_fold == 0)
    return np.asarray(folded & (~divided | (table.expert > 1)))


def _say_fold(setting: Setting, strategy: Strategy) -> str:
    model, mesh, fold = setting.model, strategy.mesh, strategy.expert_fold
    if model.experts is None:
        return f"expert_fold={fold}: {model.name} is dense and has no experts to split; use expert_fold=1"
    if setting.hardware.kind == "tpu":
        return f"expert_fold={fold} on {setting.hardware.name}: no trainer folds experts on TPU; use --mesh expert={fold}"
    if mesh.expert > 1:
        return f"expert_fold={fold} with expert={mesh.expert}: expert ranks are an axis or folded; use one of the two"
    names = "tensor x context x fsdp" if strategy.expert_tensor == "whole" else "context x fsdp"
    ranks = mesh.fsdp * mesh.context * (mesh.tensor if strategy.expert_tensor == "whole" else 1)
    ways = near_divisors(gcd(ranks, model.experts.count), fold)
    return (
        f"expert_fold={fold} does not divide both the {ranks} ranks of {names} and the {model.experts.count} experts of "
        f"{model.name}; use {ways}"
    )


def _expert_step(setting: Setting, table: StrategyTable) -> Mask:
    """Dispatch that is written out by hand, where the compiler places rows; and shardings in types next to cuDNN."""
    if setting.model.experts is None:
        return np.zeros(len(table), dtype=np.bool_)
    by_hand = table.moe_dispatch == code("moe_dispatch", "gather")
    two_meshes = (table.sharding_mode == code("sharding_mode", "explicit")) & (setting.kernel == "cudnn")
    return (by_hand & (table.sharding_mode != code("sharding_mode", "manual"))) | two_meshes


def _say_expert_step(setting: Setting, strategy: Strategy) -> str:
    if strategy.moe_dispatch != "gather":
        return (
            f"sharding_mode={strategy.sharding_mode} with the experts of {setting.model.name}: jax wants one mesh in a program "
            "with cuDNN's attention, and the experts need axes that the compiler decides; use sharding_mode=auto or manual"
        )
    return (
        f"moe_dispatch=gather is written out in sharding_mode=manual only; in {strategy.sharding_mode} the compiler chooses "
        f"how rows of {setting.model.name} travel; use dropless or capacity, or sharding_mode=manual"
    )


def _ring_matmul(setting: Setting, table: StrategyTable) -> Mask:
    """Products in pieces are written out by hand: the compiler that places arrays itself decides on its own."""
    manual = table.sharding_mode == code("sharding_mode", "manual")
    return (table.collective_matmul != code("collective_matmul", "off")) & (~manual | bool(setting.model.latent))


def _say_ring_matmul(setting: Setting, strategy: Strategy) -> str:
    if setting.model.latent:
        return (
            f"collective_matmul={strategy.collective_matmul} with {setting.model.name}: latent attention has no collective "
            "matmul; use collective_matmul=off"
        )
    return (
        f"collective_matmul={strategy.collective_matmul} is written out in sharding_mode=manual only, "
        f"not in {strategy.sharding_mode}; use manual, or collective_matmul=off"
    )


SHARDING_RULES: tuple[Rule, ...] = (
    Rule("heads", "mesh", _heads, _say_heads),
    Rule("kv-heads", "mesh", _kv_heads, _say_kv_heads),
    Rule("feed-forward", "mesh", _feed_forward, _say_feed_forward),
    Rule("vocabulary", "mesh", _vocabulary, _say_vocabulary),
    Rule("state-shards", "mesh", _state, _say_state),
    Rule("latent-shards", "mesh", _latent, _say_latent),
    Rule("collective-matmul", "knob", _ring_matmul, _say_ring_matmul),
    Rule("experts", "mesh", _experts, _say_experts),
    Rule("expert-fold", "knob", _fold, _say_fold),
    Rule("expert-step", "knob", _expert_step, _say_expert_step),
)
