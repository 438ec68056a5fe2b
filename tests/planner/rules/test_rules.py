"""Each rule on a case where it must reject and on its nearest neighbour where it must not, messages included."""

from dataclasses import replace

import pytest
from rule_cases import CASES

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES, Mesh, Strategy
from planner.request.filters import Filters
from planner.rules import ALL_RULES, KNOB_RULES, MESH_RULES
from planner.space.analysis import setting_of
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
    assert {case[0] for case in CASES} | {"vocabulary", "feed-forward"} == {rule.name for rule in ALL_RULES}
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


def test_a_mesh_rejected_early_is_counted_as_all_its_points(ask):
    """Rules on meshes before the product, or on every point of it: the same counts."""
    request = ask("llama-tiny", "dgx-h100", seq=1024, batch=8)
    analysis = analyse(request, ("nccl", "nvshmem"))
    from planner.space.enumerate import Knobs, expand, mesh_sizes

    every = expand(request, Knobs.of(Filters(), ("nccl", "nvshmem"), kind="gpu"), mesh_sizes(request))
    assert analysis.enumerated == len(every)
    broken = screen(analysis.setting, ALL_RULES, every)
    assert {ALL_RULES[i].name: int((broken == i).sum()) for i in set(broken.tolist()) if i >= 0} == analysis.rejected.counts
