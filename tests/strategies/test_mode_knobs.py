"""Every knob under every sharding mode: equal to the single-device reference, or refused by name with the way out.

The step and the planner's rules must say the same. A knob that is in none of the tables below fails the first test.
"""

from __future__ import annotations

from typing import Any

import pytest
from equality import Case, assert_equal, errors
from test_moe_equality import QWEN
from test_step_equality import PLAIN, strategy

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import AXIS_ORDERS, MOE_DISPATCHES, SCHEMES, Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.rules import ALL_RULES
from strategies.train.limits import check

MODES = ("auto", "explicit")
SQUARE, RING = {"context": 2, "tensor": 2}, {"context": 4, "fsdp": 2}

Bound = float | None
"""Largest relative error; none where gathers or reductions are bf16 in an fp32 step, which rounds in every mode alike."""
Point = tuple[ModelSpec, dict[str, Any], Bound]
WALKED: dict[str, list[Point]] = {
    "scheme": [(PLAIN, {**RING, "scheme": s, "ulysses": 2 if s == "ulysses-ring" else 1}, 1e-5) for s in SCHEMES],
    "bidirectional": [
        (PLAIN, {**RING, "bidirectional": "on"}, 1e-5),
        (PLAIN, {**RING, "scheme": "ulysses-ring", "ulysses": 2, "bidirectional": "on"}, 1e-5),
    ],
    "remat": [(PLAIN, {**SQUARE, "remat": name}, 1e-5) for name in REMAT_POLICIES],
    "offload_percent": [(PLAIN, {**SQUARE, "remat": "offload-attention", "offload_percent": 50}, 1e-5)],
    "microbatches": [(PLAIN, {**SQUARE, "microbatches": 2}, 1e-5)],
    "loss_chunk_tokens": [(PLAIN, {**SQUARE, "loss_chunk_tokens": 4}, 1e-5)],
    "axis_order": [(PLAIN, {**SQUARE, "fsdp": 2, "axis_order": AXIS_ORDERS[1]}, 1e-5)],
    "gather_dtype": [(PLAIN, {**RING, "gather_dtype": "bf16"}, None)],
    "reduce_dtype": [(PLAIN, {**RING, "reduce_dtype": "bf16"}, None)],
    "master_dtype": [(PLAIN, {**RING, "master_dtype": "bf16"}, None)],
    "grad_dtype": [(PLAIN, {**RING, "grad_dtype": "bf16"}, None)],
    "collective_matmul": [(PLAIN, {**SQUARE, "collective_matmul": ways}, 1e-5) for ways in ("one-way", "two-way")],
    "moe_dispatch": [
        (QWEN, {"expert": 2, "tensor": 2, "moe_dispatch": name, "moe_capacity_percent": 0}, 1e-5) for name in MOE_DISPATCHES
    ],
}
ELSEWHERE = {
    "mesh": "varied by the others",
    "ulysses": "walked with its scheme",
    "attention_block": "tiles of a kernel, inside the island that all modes share",
    "backend": "options of the compiler",
    "scheduler": "options of the compiler",
    "moments_dtype": "the optimizer, which all modes share",
    "optimizer": "the optimizer, which all modes share",
    "moe_capacity_percent": "counted in tests/strategies/test_moe_modes.py",
    "sampling": "another program",
    "segment": "devices of a domain that a job leaves idle, which are in no mesh",
    "schedule": "stages of a pipeline, which only manual has (tests/strategies/test_pipeline_equality.py)",
    "virtual_stages": "the same",
    "expert_fold": "priced, and refused by the step in every mode",
    "expert_tensor": "the same",
}


def refused(mode, fields):
    """Whether the combination is one that no mode but manual, or not this one, has."""
    offloads = bool(REMAT_POLICIES[fields.get("remat", "full")].offloaded)
    gathers = fields.get("moe_dispatch") == "gather"
    return gathers or "collective_matmul" in fields or (mode == "explicit" and offloads)


POINTS = [(mode, knob, point) for mode in MODES for knob, points in WALKED.items() for point in points]
BUILT = [point for point in POINTS if not refused(point[0], point[2][1])]
REFUSED = [point for point in POINTS if point not in BUILT]


def case_of(mode, point):
    model, fields, _ = point
    fields = {"gather_dtype": "fp32", "loss_chunk_tokens": 8, "sharding_mode": mode, **fields}
    gather = fields.pop("gather_dtype")
    mixed = strategy(**fields).model_copy(update={"gather_dtype": gather})
    return Case(model, mixed, global_batch=8)


def named(value):
    if isinstance(value, tuple):
        return ",".join(str(part) for key, part in value[1].items() if key not in ("context", "tensor", "fsdp", "expert"))
    return value


def test_every_knob_is_walked_or_said_to_be_elsewhere():
    assert {*WALKED, *ELSEWHERE, "sharding_mode"} == set(Strategy.model_fields)


def broken_rules(case):
    # the step of these tests has no cuDNN, whose attention refuses experts in explicit (rule expert-step)
    explicit = case.model.experts is not None and case.strategy.sharding_mode == "explicit"
    machine = hardware("tpu-v5e-16" if explicit else "gb200-nvl72")
    workload = Workload(seq_len=case.seq_len, global_batch=case.global_batch)
    table = StrategyTable.from_strategies([case.strategy])
    setting = Setting(case.model, machine, workload, machine.usable_bytes)
    return [rule.explain(setting, case.strategy) for rule in ALL_RULES if rule.broken(setting, table)[0]]


@pytest.mark.parametrize(("mode", "knob", "point"), BUILT, ids=named)
def test_what_is_built_is_refused_by_neither_step_nor_rules(mode, knob, point):
    case = case_of(mode, point)
    assert broken_rules(case) == []
    check(case.spec())


@pytest.mark.parametrize(("mode", "knob", "point"), REFUSED, ids=named)
def test_what_is_not_built_is_refused_by_both_with_the_way_out(mode, knob, point):
    case = case_of(mode, point)
    with pytest.raises(BadInputError) as error:
        check(case.spec())
    assert len(broken_rules(case)) == len(error.value.problems) == 1
    for message in (*error.value.problems, *broken_rules(case)):
        assert f"sharding_mode={mode}" in message or "sharding_mode=manual" in message
        assert "; use " in message


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "knob", "point"), BUILT, ids=named)
def test_what_is_built_equals_the_reference(mode, knob, point):
    if point[2] is None:
        assert_rounds_as_manual(mode, point)
    else:
        assert_equal(case_of(mode, point), bound=point[2])


def assert_rounds_as_manual(mode, point):
    manual = errors(case_of("manual", point))
    assert max(manual.values()) > 1e-3
    for name, error in errors(case_of(mode, point)).items():
        assert error < 1.3 * manual[name] + 1e-5, name
