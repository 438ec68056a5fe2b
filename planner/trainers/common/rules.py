"""Rules and differences that several trainers share; each trainer names them for itself."""

from __future__ import annotations

import numpy as np

from cost_models.estimate import estimate
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.program import Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.formats.nearest import near_divisors, near_multiples
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import OWN_STEP, Difference, Job, Trainer


def two_chunks_rule(trainer: str, *, with_tensor: bool) -> Rule:
    """The sequence must divide into 2 x context chunks, whatever the scheme; x tensor, and then without a context axis too."""

    def broken(setting: Setting, table: StrategyTable) -> Mask:
        pieces = 2 * table.context * (table.tensor if with_tensor else 1)
        return ((table.context > 1) | with_tensor) & (setting.workload.seq_len % pieces != 0)

    def say(setting: Setting, strategy: Strategy) -> str:
        parts = 2 * strategy.mesh.context * (strategy.mesh.tensor if with_tensor else 1)
        factors = "2 x context x tensor" if with_tensor else "2 x context"
        return (
            f"{trainer} always balances: {factors} = {parts} must divide seq_len={setting.workload.seq_len}; "
            f"use {near_multiples(parts, setting.workload.seq_len)} tokens"
        )

    return Rule(f"{trainer}-chunks", "knob", broken, say)


def window_rule(trainer: str) -> Rule:
    """No layer's window may be shorter than the sequence."""

    def broken(setting: Setting, table: StrategyTable) -> Mask:
        return np.full(len(table), setting.model.windows_within(setting.workload.seq_len))

    def say(setting: Setting, _: Strategy) -> str:
        model, seq = setting.model, setting.workload.seq_len
        return (
            f"{model.name} has layers that attend in a window of {model.sliding_window} tokens, shorter than seq_len={seq}, "
            f"which lcplan does not export to {trainer}; --to {OWN_STEP} has them"
        )

    return Rule(f"{trainer}-window", "mesh", broken, say)


def pipeline_rule(trainer: str) -> Rule:
    """No pipeline: lcplan writes no key of the trainer for one."""

    def broken(_: Setting, table: StrategyTable) -> Mask:
        return np.asarray(table.pipe > 1)

    def say(_: Setting, strategy: Strategy) -> str:
        return f"pipe={strategy.mesh.pipe}: lcplan does not export a pipeline to {trainer}; use pipe=1, or --to {OWN_STEP}"

    return Rule(f"{trainer}-pipeline", "mesh", broken, say)


def export_rules(trainer: Trainer) -> tuple[Rule, ...]:
    """The trainer's own rules, and those of windows and of a pipeline where lcplan does not export them."""
    windows = () if trainer.windows else (window_rule(trainer.name),)
    stages = () if trainer.pipeline else (pipeline_rule(trainer.name),)
    return (*windows, *stages, *trainer.rules)


def kv_heads_rule(trainer: str) -> Rule:
    """Tensor ranks cannot share a key/value head."""

    def broken(setting: Setting, table: StrategyTable) -> Mask:
        return setting.model.kv_heads % table.tensor != 0

    def say(setting: Setting, strategy: Strategy) -> str:
        heads = setting.model.kv_heads
        return (
            f"{trainer} does not replicate key/value heads: tensor={strategy.mesh.tensor} must divide kv_heads={heads} of "
            f"{setting.model.name}; use {near_divisors(heads, strategy.mesh.tensor)}"
        )

    return Rule(f"{trainer}-kv-heads", "knob", broken, say)


def ulysses_kv_rule(trainer: str) -> Rule:
    """Ulysses without replication: context must divide the key/value heads of a tensor rank."""

    def broken(setting: Setting, table: StrategyTable) -> Mask:
        heads = setting.model.kv_heads // table.tensor.clip(max=setting.model.kv_heads)
        return table.scheme_has(lambda facts: facts.sees_whole_sequences) & (heads % table.context != 0)

    def say(setting: Setting, strategy: Strategy) -> str:
        heads = max(1, setting.model.kv_heads // strategy.mesh.tensor)
        return (
            f"{trainer} does not replicate key/value heads: its all-to-all needs context={strategy.mesh.context} to divide the "
            f"{heads} of a tensor rank; use a ring or all-gather scheme"
        )

    return Rule(f"{trainer}-ulysses-heads", "knob", broken, say)


def bf16_copy(job: Job, why: str) -> list[Difference]:
    """A bf16 copy of a device's parameters in addition to the fp32 masters."""
    copy = round(2 * job.state_elements)
    return [
        Difference(
            name="parameters",
            plan="only fp32 masters, cast as they are gathered",
            trainer="fp32 masters and a bf16 shard",
            why=why,
            extra_bytes=copy,
        )
    ]


def whole_stream(job: Job, why: str) -> list[Difference]:
    """The residual stream that every layer keeps is whole on each tensor rank: no sequence parallelism."""
    tensor = job.strategy.mesh.tensor
    if tensor == 1:
        return []
    stream = 2 * job.local_tokens * job.model.d_model * job.model.layers
    return [
        Difference(
            name="residual-stream",
            plan="T/tensor between layers (sequence parallel)",
            trainer="whole on each tensor rank",
            why=why,
            extra_bytes=round(stream * (1 - 1 / tensor)),
        )
    ]


def keeps_more(job: Job, trainer: str) -> list[Difference]:
    """Without rematerialisation a trainer also keeps tensors that ``save-all`` recomputes: two norms and the gated product."""
    if job.strategy.remat != "save-all":
        return []
    tensor, model = job.strategy.mesh.tensor, job.model
    width = (2 * model.d_model + fed_width(model)) / tensor
    return [
        Difference(
            name="saved-activations",
            plan="products saved, norms and activation recomputed",
            trainer="everything saved",
            why=f"{trainer} saves every input of every operation; the norms' outputs and the gated product come on top",
            extra_bytes=round(2 * job.local_tokens * width * model.layers),
        )
    ]


def fed_width(model: ModelSpec) -> float:
    """Features of a token inside a layer's feed-forward, with experts those of all that it meets; the mean over layers."""
    experts = model.experts
    if experts is None:
        return model.d_ff
    share = model.expert_layers / model.layers
    return share * (experts.active * experts.d_ff + experts.shared_d_ff) + (1 - share) * model.d_ff


def bf16_copy_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """A bf16 copy of a device's matrices (``bf16_copy``)."""
    model = setting.model
    vectors = model.layers * model.layer_vector_parameters + model.d_model
    return 2.0 * (model.parameters - vectors) / Layout(setting, table).state_shards


def kept_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Tensors that a trainer without rematerialisation keeps and ``save-all`` recomputes (``keeps_more``)."""
    layout, model = Layout(setting, table), setting.model
    width = (2 * model.d_model + fed_width(model)) / layout.tensor
    return np.where(table.remat == CODES["remat"].index("save-all"), 2.0 * layout.tokens * width * model.layers, 0.0)


def whole_loss_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Logits and their gradient in fp32 of a microbatch's sequences beyond the first (``translate.further_logits``)."""
    layout = Layout(setting, table)
    return 8.0 * (layout.tokens - layout.local_length) * layout.vocab_width


def buffers(job: Job, trainer: str) -> list[Difference]:
    """Buffers of a dropless dispatch in PyTorch have as many rows as arrive; lcplan's step has buffers of a fixed size."""
    strategy = job.strategy
    if job.model.experts is None or strategy.moe_dispatch == "capacity":
        return []
    percent = strategy.moe_capacity_percent
    size = f"{percent} % of a balanced load; further rows are dropped" if percent else "the worst case; no row is dropped"
    return [
        Difference(
            name="expert-buffers",
            plan=f"buffers of {size}",
            trainer="buffers of the rows that arrive; no row is dropped",
            why=f"{trainer} allocates them in each step, so a router that is out of balance takes more memory",
        )
    ]


def gathered_weights(job: Job, *, key: str) -> list[Difference]:
    """Weights that stay gathered from the forward to the backward pass, in bf16; for a step that the cost model lacks."""
    if job.strategy.state_shards == job.strategy.mesh.tensor:
        return []
    return [
        Difference(
            name="gathered-weights",
            plan="a layer's weights are gathered in each pass",
            trainer="all gathered weights stay from the forward to the backward pass",
            why=f"{key}: the whole model in bf16 on every rank",
            extra_bytes=round(2.0 * job.model.parameters / job.strategy.mesh.tensor),
        )
    ]


def bf16_masters(job: Job, *, bytes_per_parameter: float, key: str) -> list[Difference]:
    """State that has fewer bytes than fp32 masters and gradients."""
    return [
        Difference(
            name="master-dtype",
            plan="masters in fp32",
            trainer="masters in bf16",
            why=f"{key}; updates are then rounded to bf16",
            extra_bytes=-round(bytes_per_parameter * job.model.parameters / job.strategy.state_shards),
        )
    ]


def fp32_products(job: Job, program: Program) -> Difference:
    """Count the activations and gathered weights of products in fp32: twice those of bf16."""
    setting = Setting(job.model, job.hardware, job.workload, job.hardware.usable_bytes, program=program)
    parts = estimate(setting, StrategyTable.from_strategies([job.strategy])).memory_bytes
    twice = ("saved_activations", "working_set", "gathered_weights", "collective_buffers", "kv_ring")
    return Difference(
        name="products",
        plan="bf16",
        trainer="fp32: activations and gathered weights take twice as much",
        why="mixed_precision no; give --moments-dtype bf16 where the script loads the model in bf16",
        extra_bytes=round(sum(float(parts[name][0]) for name in twice if name in parts)),
    )
