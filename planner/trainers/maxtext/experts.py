"""Mixtures of experts in MaxText 0.2.5: the models that its decoder blocks build, and the keys of their dispatch.

Read in ``layers/moe.py`` and ``configs/types.py``. Its expert axis has the two meanings of lcplan's: batch and dense state are
split over it, and so are the experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.imported import number
from planner.trainers.common.interface import Difference, Job

BLOCKS: Mapping[str, str] = MappingProxyType({"mixtral": "mixtral", "qwen3_moe": "qwen3_moe"})
"""MaxText's decoder block of each of lcplan's families with experts that are exported."""
SAVED: Mapping[str, str] = MappingProxyType({"gate": "moe_mlpwi_0", "up": "moe_mlpwi_1", "dispatched": "moe_x_sorted"})
"""MaxText's checkpoint names of the tensors that a layer with experts has by expert."""

SIZES: Mapping[str, str] = MappingProxyType(
    {"num_experts": "count", "num_experts_per_tok": "active", "base_moe_mlp_dim": "d_ff"}
)
"""lcplan's field of each of MaxText's keys."""


def model_problems(model: ModelSpec) -> list[str]:
    """Why MaxText's decoder blocks cannot build a mixture; empty for a dense model."""
    experts = model.experts
    if experts is None:
        return []
    if model.family not in BLOCKS:
        return [
            f"{model.name} has experts of family {model.family}, which lcplan exports to MaxText for {' and '.join(BLOCKS)}"
        ]
    plain = type(experts)(count=experts.count, active=experts.active, d_ff=experts.d_ff)
    differing = [name for name in type(experts).model_fields if getattr(experts, name) != getattr(plain, name)]
    if not differing:
        return []
    return [f"the {BLOCKS[model.family]} decoder block has no key for {', '.join(differing)} of {model.name}'s experts"]


def model_keys(model: ModelSpec) -> dict[str, Any]:
    """The sizes of the experts; in a model whose layers all have experts both widths must be equal."""
    experts = model.experts
    if experts is None:
        return {}
    return {
        "base_mlp_dim": experts.d_ff,
        "base_moe_mlp_dim": experts.d_ff,
        "num_experts": experts.count,
        "num_experts_per_tok": experts.active,
        "norm_topk_prob": model.family == "qwen3_moe",  # mixtral's weights are a softmax over the chosen experts as they are
    }


def read_model(said: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of experts that a configuration sets, by the fields of lcplan's ``Experts``."""
    return {ours: said[theirs] for theirs, ours in SIZES.items() if theirs in said}


def dispatch_keys(job: Job) -> dict[str, Any]:
    """The keys of the dispatch and its capacity."""
    if job.model.experts is None:
        return {}
    strategy, tpu = job.strategy, job.hardware.kind == "tpu"
    factor = strategy.moe_capacity_percent / 100
    if strategy.moe_dispatch == "capacity":
        return {"sparse_matmul": False, "megablox": False, "capacity_factor": factor}
    keys: dict[str, Any] = {"sparse_matmul": True, "megablox": tpu, "capacity_factor": -1.0}
    if strategy.mesh.expert == 1:
        return keys
    keys["ragged_buffer_factor"] = factor or -1.0
    if strategy.moe_dispatch == "gather":
        keys |= {"use_ring_of_experts": True, "use_ragged_sort": bool(factor)}
    return keys


def read_dispatch(values: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """The dispatch of a configuration.

    Dense products have a capacity for each expert and drop the tokens beyond it. Sparse ones have a buffer for each rank, of
    the worst case unless ``ragged_buffer_factor`` is set, and gather all tokens in a ring of experts.
    """
    factor = number(values["capacity_factor"], "capacity_factor", file=file)
    if not values["sparse_matmul"]:
        return {"moe_dispatch": ("capacity",), "moe_capacity_percent": (_percent(factor),)} if factor > 0 else {}
    found: dict[str, Any] = {"moe_dispatch": ("gather",)} if values.get("use_ring_of_experts") else {}
    if "ragged_buffer_factor" in values:
        buffer = number(values["ragged_buffer_factor"], "ragged_buffer_factor", file=file)
        found["moe_capacity_percent"] = (_percent(buffer) if buffer > 0 else 0,)
    return found


def _percent(factor: float) -> int:
    return max(1, round(100 * factor))


def extras(job: Job) -> list[Difference]:
    """Differences of a mixture as MaxText runs it."""
    if job.model.experts is None:
        return []
    found = [
        Difference(
            name="routing-weights",
            plan="they multiply the input of an expert's last product",
            trainer="they multiply its result",
            why="under full recomputation its backward pass repeats that product and the combine",
        )
    ]
    if job.strategy.moe_dispatch == "capacity":
        found.append(
            Difference(
                name="dispatch",
                plan="rows are copied to their places",
                trainer="rows are moved by products with one-hot masks",
                why="sparse_matmul: false dispatches and combines with einsums over tokens x experts x capacity",
            )
        )
    return found


def _worst_case(setting: Setting, table: StrategyTable) -> Mask:
    capacity = table.moe_dispatch == CODES["moe_dispatch"].index("capacity")
    return capacity & (table.moe_capacity_percent == 0) & (setting.model.experts is not None)


def _say_worst_case(_: Setting, __: Strategy) -> str:
    return (
        "moe_dispatch=capacity with moe_capacity_percent=0: without a capacity factor MaxText's dense products run every "
        "expert on every token; use moe_dispatch=dropless, or a moe_capacity_percent of 100 or more"
    )


def _gpu_buffer(setting: Setting, table: StrategyTable) -> Mask:
    gather = (table.moe_dispatch == CODES["moe_dispatch"].index("gather")) & (table.expert > 1)
    broken = gather & (table.moe_capacity_percent > 0) & (setting.model.experts is not None)
    return broken if setting.hardware.kind == "gpu" else np.zeros(len(table), dtype=bool)


def _say_gpu_buffer(_: Setting, strategy: Strategy) -> str:
    return (
        f"moe_dispatch=gather with moe_capacity_percent={strategy.moe_capacity_percent}: MaxText's ring of experts bounds its "
        "buffer only with use_ragged_sort, whose kernels run on TPU; use moe_capacity_percent=0, or moe_dispatch=dropless"
    )


RULES = (
    Rule("maxtext-moe-capacity", "knob", _worst_case, _say_worst_case),
    Rule("maxtext-moe-gather", "knob", _gpu_buffer, _say_gpu_buffer),
)
