"""Mixtures of experts in Megatron: the arguments of the model, of the dispatch and of expert parallelism.

Read in megatron-core 0.19.2 (``core/transformer/moe``, ``core/parallel_state.py``, ``transformer_config.py``).
Expert ranks are among the data-parallel and context ranks; ``--expert-tensor-parallel-size`` ranks split each expert.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Job
from planner.trainers.common.rules import buffers

Arguments = dict[str, str | None]

DISPATCHERS: Mapping[str, str] = MappingProxyType({"dropless": "alltoall", "capacity": "alltoall", "gather": "allgather"})
"""``--moe-token-dispatcher-type`` of each dispatch; a capacity factor makes ``alltoall`` drop."""


def model_problems(model: ModelSpec) -> list[str]:
    """Why Megatron's arguments cannot describe the experts; empty for a dense model."""
    experts = model.experts
    if experts is None:
        return []
    problems = []
    if experts.scores != "softmax" or experts.groups > 1 or experts.scale != 1.0:
        problems.append(f"routing of {model.name}: lcplan exports softmax scores without groups or a scale")
    if (experts.bias or experts.router_bias) and not model.mlp_bias:
        problems.append(f"biases of experts of {model.name}: --disable-bias-linear is for all products alike")
    return problems


def model_arguments(model: ModelSpec) -> Arguments:
    """The sizes of the experts and their router."""
    experts = model.experts
    if experts is None:
        return {}
    arguments: Arguments = {
        "num-experts": str(experts.count),
        "moe-router-topk": str(experts.active),
        "moe-ffn-hidden-size": str(experts.d_ff),
        "moe-router-load-balancing-type": "aux_loss",
        "moe-aux-loss-coeff": "1e-3",
        "moe-router-dtype": "fp32",
        "moe-grouped-gemm": None,
    }
    if experts.first_dense or experts.every > 1:
        runs = groupby(int(experts.of(layer)) for layer in range(model.layers))
        arguments["moe-layer-freq"] = f"({'+'.join(f'[{kind}]*{len(list(layers))}' for kind, layers in runs)})"
    if not experts.normalized:
        arguments["moe-router-pre-softmax"] = None
    if experts.shared_d_ff:
        arguments["moe-shared-expert-intermediate-size"] = str(experts.shared_d_ff)
        arguments |= {"moe-shared-expert-gate": None} if experts.shared_gate else {}
    return arguments


def dispatch_arguments(job: Job) -> Arguments:
    """The ranks of the experts, and how tokens reach them."""
    strategy = job.strategy
    if job.model.experts is None:
        return {}
    ranks, split = job.expert_ranks
    arguments: Arguments = {
        "expert-model-parallel-size": str(ranks),
        "expert-tensor-parallel-size": str(split),
        "moe-token-dispatcher-type": DISPATCHERS[strategy.moe_dispatch],
    }
    if strategy.moe_dispatch == "capacity":
        arguments["moe-expert-capacity-factor"] = f"{strategy.moe_capacity_percent / 100:g}"
        arguments["moe-pad-expert-input-to-capacity"] = None
    return arguments


def bridge_fields(job: Job) -> dict[str, object]:
    """The same as fields of Megatron-Bridge's model section, which are those of ``TransformerConfig``."""
    experts = job.model.experts
    if experts is None:
        return {}
    strategy, (ranks, split) = job.strategy, job.expert_ranks
    fields: dict[str, object] = {
        "model.num_moe_experts": experts.count,
        "model.moe_router_topk": experts.active,
        "model.moe_ffn_hidden_size": experts.d_ff,
        "model.expert_model_parallel_size": ranks,
        "model.expert_tensor_parallel_size": split,
        "model.moe_grouped_gemm": True,
        "model.moe_token_dispatcher_type": DISPATCHERS[strategy.moe_dispatch],
    }
    if strategy.moe_dispatch == "capacity":
        fields["model.moe_expert_capacity_factor"] = strategy.moe_capacity_percent / 100
        fields["model.moe_pad_expert_input_to_capacity"] = True
    return fields


def recomputed_modules(model: ModelSpec) -> tuple[str, ...]:
    """``--recompute-modules`` that recompute a layer's feed-forward and its norms."""
    experts = () if model.experts is None else ("moe",)
    return (*(("mlp",) if model.expert_layers < model.layers else ()), *experts, "layernorm")


def extras(job: Job) -> list[Difference]:
    """Differences of a mixture as Megatron runs it."""
    if job.model.experts is None:
        return []
    found = buffers(job, "Megatron")
    mesh, (ranks, split) = job.strategy.mesh, job.expert_ranks
    if split > 1 and ranks > 1:
        found.append(
            Difference(
                name="dispatch",
                plan="each tensor rank sends the rows of all tokens of its context rank",
                trainer=f"each tensor rank sends 1/{mesh.tensor} of them, which are then gathered over tensor",
                why="under sequence parallelism the dispatcher starts from the rows of one tensor rank",
            )
        )
    return found


def _no_capacity(setting: Setting, table: StrategyTable) -> Mask:
    capacity = table.moe_dispatch == CODES["moe_dispatch"].index("capacity")
    return np.asarray(capacity & (table.moe_capacity_percent == 0) & (setting.model.experts is not None))


def _say_no_capacity(_: Setting, __: Strategy) -> str:
    return (
        "moe_dispatch=capacity with moe_capacity_percent=0: without a capacity factor Megatron drops no row and pads none; use "
        "moe_dispatch=dropless, or a moe_capacity_percent of 100 or more"
    )


RULES = (Rule("megatron-moe-capacity", "knob", _no_capacity, _say_no_capacity),)
