"""Each rule on a case where it must reject and on its nearest neighbour where it must not, messages included."""

from dataclasses import replace

import pytest
from rule_cases import CASES

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES, Mesh, Strategy
from planner.request.filters import Filters
from planner.rules import ALL_RULES, KNOB_RULES, MESH_RULES
from planner.rules.rollout import ROLLOUT_RULES
from planner.space.analysis import setting_of
from planner.space.enumerate import Knobs, expand
from planner.space.meshes import every_mesh, mesh_table
from planner.space.reject import screen
from planner.workloads.points import analyse, broken_rules


def _strategy(scheme="ring", loss_chunk_tokens=1024, **fields):
    mesh = Mesh(**{axis: fields.pop(axis) for axis in AXES if axis in fields})
    return Strategy(mesh=mesh, scheme=scheme, loss_chunk_tokens=loss_chunk_tokens, **fields)


@pytest.mark.parametrize(
    ("name", "request_fields", "bad", "message", "good"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_rule(ask, name, request_fields, bad, message, good):
    setting = setting_of(ask(**request_fields))
    rule = next(rule for rule in ALL_RULES if rule.name == name)
    rejects = lambda fields: bool(rule.broken(setting, StrategyTable.from_strategies([_strategy(**fields)]))[0])  # noqa: E731
    assert rejects(bad)
    assert not rejects(good)
    assert message in rule.explain(setting, _strategy(**bad))


def test_all_broken_rules_of_one_strategy_are_told(ask):
    problems = broken_rules(setting_of(ask(seq=1000, batch=6)), _strategy(fsdp=4, context=16))
    assert [problem.rpartition("(rule ")[2].rstrip(")") for problem in problems] == ["sequence", "batch", "loss-chunk"]


def test_every_rule_has_a_case():
    assert {case[0] for case in CASES} | {"vocabulary", "feed-forward", "pipeline-program"} == {rule.name for rule in ALL_RULES}
    assert not set(MESH_RULES) & set(KNOB_RULES)


@pytest.mark.parametrize(
    ("rule", "field", "value", "message"),
    [
        ("vocabulary", "vocab", 50257, "tensor=2 does not divide vocab=50257"),
        ("vocabulary", "vocab", 50257, "pad the vocabulary to 50258"),
        ("feed-forward", "d_ff", 13653, "tensor=2 does not divide d_ff=13653"),
    ],
)
def test_dims_that_tensor_must_divide(ask, rule, field, value, message):
    setting = setting_of(ask())
    odd = replace(setting, model=setting.model.model_copy(update={field: value}))
    found = next(r for r in ALL_RULES if r.name == rule)
    table = StrategyTable.from_strategies([_strategy(tensor=2)])
    assert found.broken(odd, table)[0]
    assert not found.broken(setting, table)[0]
    assert message in found.explain(odd, _strategy(tensor=2))


@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "all-gather", "ulysses", "ulysses-ring"])
def test_windows_inside_documents_are_let_in(ask, scheme):
    setting = setting_of(ask("gemma-2-9b", seq=65536))
    packed = replace(setting, workload=setting.workload.model_copy(update={"document_len": 4096}))
    one = _strategy(context=4, scheme=scheme, ulysses=2 if scheme == "ulysses-ring" else 1)
    assert broken_rules(setting, one) == broken_rules(packed, one) == []


def test_rejected_counts_add_up_and_have_an_example_each(ask):
    analysis = analyse(ask(), ("nccl", "nvshmem"))
    counts = analysis.rejected.counts
    assert sum(counts.values()) == analysis.rejected.total == analysis.enumerated - len(analysis.table)
    for name in counts:
        assert len(analysis.rejected.example(analysis.setting, name)) > 40
    with pytest.raises(KeyError):
        analysis.rejected.example(analysis.setting, "no-such-rule")


def test_what_was_estimated_breaks_no_rule(ask):
    analysis = analyse(ask("qwen2.5-7b", "dgx-h100x2", seq=32768, batch=32), ("nccl",))
    assert (screen(analysis.setting, ALL_RULES, analysis.table) < 0).all()


@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-h100x2"])
def test_counts_are_those_of_every_strategy_made(ask, machine):
    """Shapes that a rule rejects are counted and not made: as many strategies as there are if every one is made."""
    request = ask("llama-tiny", machine, seq=1024, batch=8)
    analysis = analyse(request, ("nccl", "nvshmem"))
    every = expand(request, Knobs.of(Filters(), ("nccl", "nvshmem"), kind="gpu"), every_mesh(request))
    assert analysis.enumerated == len(every)
    kept = screen(analysis.setting, ALL_RULES, every) < 0
    assert kept.sum() == len(analysis.table)
    knobs = screen(analysis.setting, MESH_RULES, every) < 0
    broken = screen(analysis.setting, KNOB_RULES, every)
    counts = {KNOB_RULES[i].name: int((broken[knobs] == i).sum()) for i in set(broken[knobs].tolist()) if i >= 0}
    assert counts.items() <= analysis.rejected.counts.items()


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        *((model, rule) for model in ("llama3-8b", "qwen3-30b-a3b", "deepseek-v3") for rule in MESH_RULES),
        *(("llama3-8b", rule) for rule in ROLLOUT_RULES),  # a rollout has no experts
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_rule_that_rejects_a_shape_rejects_its_meshes(ask, model, rule):
    """What ``planner.space.meshes.keeping`` relies on: with all ranks on data a mesh breaks no more rules than otherwise."""
    request = ask(model, "gb200-nvl72x2", seq=3 * 2**16, batch=24)
    setting, meshes = setting_of(request), every_mesh(request.model_copy(update={"devices": 96}))
    shapes = meshes.copy()
    batch = [AXES.index(axis) for axis in ("data", "fsdp", "expert")]
    shapes[:, batch] = 1
    shapes[:, batch[0]] = meshes[:, batch].prod(axis=1)
    assert not (rule.broken(setting, mesh_table(shapes)) & ~rule.broken(setting, mesh_table(meshes))).any()


def test_a_trainers_pipeline_has_no_price(ask):
    setting = setting_of(ask())
    torch = replace(setting, program=setting.program.model_copy(update={"runtime": "torch"}))
    rule, table = next(r for r in ALL_RULES if r.name == "pipeline-program"), StrategyTable.from_strategies([_strategy(pipe=2)])
    assert [bool(rule.broken(one, table)[0]) for one in (setting, torch)] == [False, True]
    assert "a trainer's pipeline has no price yet" in rule.explain(torch, _strategy(pipe=2))
