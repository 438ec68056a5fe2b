"""Mixtures of experts in torchtitan 0.3.0: the models that its layers build, and the ranks that hold their experts.

Read in ``distributed/parallel_dims.py``, ``models/common/moe.py`` and ``models/qwen3``. Expert ranks are the innermost of
dp_shard x cp x tp, and hold whole experts; without them each expert is split over tp. The dispatch is dropless.
"""

from __future__ import annotations

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.model import ModelSpec
from lcplan.strategy import MOE_DISPATCHES, Strategy
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Difference, Job, Knob
from planner.trainers.common.knobs import instead
from planner.trainers.common.rules import buffers

DISPATCH = Knob(
    instead("dropless", of=MOE_DISPATCHES),
    "its token dispatchers are dropless, by an all-to-all of the rows (token_dispatcher.py)",
)


def model_problems(model: ModelSpec) -> list[str]:
    """Why its layers cannot build the experts; empty for a dense model."""
    experts = model.experts
    if experts is None:
        return []
    plain = type(experts)(count=experts.count, active=experts.active, d_ff=experts.d_ff)
    differing = [name for name in type(experts).model_fields if getattr(experts, name) != getattr(plain, name)]
    if not differing:
        return []
    return [f"its qwen3 layers with experts have no {', '.join(differing)} as {model.name}'s experts have"]


def extras(job: Job) -> list[Difference]:
    """Differences of a mixture as torchtitan runs it."""
    if job.model.experts is None:
        return []
    weights = Difference(
        name="routing-weights",
        plan="they multiply the input of an expert's last product",
        trainer="they multiply its result",
        why="the dispatcher combines results with the routing weights",
    )
    return [weights, *buffers(job, "torchtitan")]


def _split(setting: Setting, table: StrategyTable) -> Mask:
    split = (table.expert > 1) | ((table.expert_fold > 1) & (table.expert_tensor == CODES["expert_tensor"].index("split")))
    return np.asarray(split & (table.tensor > 1) & (setting.model.experts is not None))


def _say_split(_: Setting, strategy: Strategy) -> str:
    mesh = strategy.mesh
    return (
        f"expert={mesh.expert * strategy.expert_fold} with tensor={mesh.tensor}: torchtitan splits an expert over tensor only "
        "without expert ranks, which hold whole experts; use tensor=1, expert=1, or expert_fold with expert_tensor=whole"
    )


RULES = (Rule("torchtitan-expert-tensor", "mesh", _split, _say_split),)
