"""A knob that a trainer has no key for: ``--for`` rejects other values, an export runs its default and names the difference."""

import pytest

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXIS_ORDERS, Mesh, Strategy
from planner.space.analysis import setting_of
from planner.trainers import Job, all_trainers, trainer
from planner.trainers.common.restrict import rules_for
from planner.trainers.common.translate import translate

OTHER = {
    "attention_block": {"attention_block": 1024},
    "offload_percent": {"offload_percent": 50, "remat": "offload-layer-in"},
    "bidirectional": {"bidirectional": "on", "scheme": "ring-zigzag"},
    "sharding_mode": {"sharding_mode": "auto"},
    "scheduler": {"scheduler": "latency-hiding"},
    "optimizer": {"optimizer": "lion"},
    "master_dtype": {"master_dtype": "none"},
    "grad_dtype": {"grad_dtype": "bf16"},
    "expert_fold": {"expert_fold": 8},
    "expert_tensor": {"expert_tensor": "whole", "expert_fold": 8},
}
"""A strategy with another value of each knob, so that the knob does something."""
CASES = [(one.name, knob) for one in all_trainers() for knob in one.lacks]


@pytest.mark.parametrize(("name", "knob"), CASES, ids=lambda value: getattr(value, "name", value))
def test_another_value_is_rejected_and_runs_as_the_default(ask, name, knob):
    request = ask("llama3-8b", "gb200-nvl72")
    plain = Strategy(mesh=Mesh(fsdp=4, context=8), loss_chunk_tokens=1024)
    other = plain.model_copy(update=OTHER[knob.name])
    [rule] = [rule for rule in rules_for(trainer(name), request.hardware) if rule.name == f"{name}-{knob.word}"]
    assert rule.broken(setting_of(request), StrategyTable.from_strategies([other, plain])).tolist() == [True, False]
    assert name in rule.explain(setting_of(request), other)
    job = Job(request.model, request.hardware, request.workload, other)
    translation = translate(trainer(name), job, fits=lambda _: True)
    assert getattr(translation.job.strategy, knob.name) == knob.default
    named = [difference for difference in translation.differences if difference.field == knob.name]
    assert len(named) == knob.is_active(translation.job.strategy)
    assert all(trainer(name).title in difference.why for difference in named)


def test_an_order_is_named_by_the_axes_that_are_split(ask):
    request = ask("llama3-8b", "gb200-nvl72")
    order = ("tensor", *(axis for axis in AXIS_ORDERS[0] if axis != "tensor"))
    strategy = Strategy(mesh=Mesh(fsdp=4, tensor=8), axis_order=order, loss_chunk_tokens=1024)
    job = Job(request.model, request.hardware, request.workload, strategy)
    [found] = [one for one in translate(trainer("megatron"), job, fits=lambda _: True).differences if one.name == "axis-order"]
    assert (found.plan, found.trainer) == ("tensor, fsdp", "fsdp, tensor")
