"""The contract of a workload, over every kind that is registered: each question is answered, or refused by name."""

from typing import get_args

import numpy as np
import pytest

from lcplan import catalog
from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES, WorkloadKind
from lcplan.strategy import KNOBS
from planner.export.run import export_plan
from planner.measure.targets.toolchain import probe
from planner.measure.work import ProgramWork
from planner.request.request import make_request
from planner.request.workload_options import WorkloadOptions, check_workload, workload_of
from planner.space.analysis import setting_of
from planner.space.meshes import every_mesh
from planner.space.reject import broken_rules_of
from planner.trainers import trainer, trainer_names
from planner.what_if.result import Question
from planner.what_if.vary import QUANTITIES
from planner.workloads.one_strategy import resolve_strategy
from planner.workloads.points import analyse
from planner.workloads.registry import WORKLOADS, planned

KINDS = tuple(WORKLOADS)
MODEL, HARDWARE = "qwen3-1.7b", "dgx-h100"
BACKENDS = ("nccl",)


def asked(kind, *, seq=True):
    """The options that a request of this kind needs, with the values of the record's own example."""
    example = WORKLOAD_TYPES[kind].facts.example.split()
    sizes = [] if "--seq" in example and not seq else example
    return ["--model", MODEL, "--hw", HARDWARE, "--workload", kind, *sizes]


def request_of(kind, **fields):
    words = WORKLOAD_TYPES[kind].facts.example.split()
    sizes = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    options = WorkloadOptions(kind=kind, **{name: 65536 if value == "64k" else int(value) for name, value in sizes.items()})
    check_workload(options)
    hardware = catalog.hardware(HARDWARE)
    data = {"model": catalog.model(MODEL), "hardware": hardware, "workload": workload_of(options, hardware, None)}
    return make_request(data | {"budget_bytes": hardware.usable_bytes, "devices": 8} | fields)


def test_each_kind_has_a_noun_and_a_module():
    assert set(WORKLOADS) == set(WORKLOAD_TYPES) == set(get_args(WorkloadKind))
    for kind, made in WORKLOAD_TYPES.items():
        assert made.model_fields["kind"].default == kind
        assert set(made.facts.needs) <= set(made.facts.options)
        assert {*made.facts.sizes, made.facts.batch_field} <= set(made.model_fields)
        assert made.facts.trained == (request_of(kind).workload.train is not None)
        foreign = {name for other in WORKLOAD_TYPES.values() for name in other.facts.options} - set(made.facts.options)
        assert foreign == set(made.facts.instead)


@pytest.mark.parametrize("kind", KINDS)
def test_needed_options_are_asked_for_by_name(kind):
    with pytest.raises(BadInputError) as caught:
        check_workload(WorkloadOptions(kind=kind))
    for name in WORKLOAD_TYPES[kind].facts.needs:
        assert f"--workload {kind} needs --{name}, for example" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_points_keep_every_rule_and_need_what_they_are_priced_with(kind):
    request = request_of(kind)
    workload, setting = planned(request), setting_of(request)
    space = workload.space(request, BACKENDS)
    table = workload.points(request, BACKENDS)
    assert len(table) == len(space.table) > 0
    some = table.take(np.linspace(0, len(table) - 1, 12).astype(int))
    priced = workload.price(setting, some)
    assert workload.need_bytes(setting, some) == pytest.approx(priced.total_bytes + priced.allowance_bytes)
    for row in range(len(some)):
        strategy = some.strategy(row)
        assert broken_rules_of(setting, strategy, rules=workload.rules) == []
        again = workload.price(setting, workload.table_of([strategy])).row(0)
        assert again["step_s"] == pytest.approx(priced.step_s[row])
        assert again["memory_bytes"]["total"] == pytest.approx(priced.total_bytes[row])


@pytest.mark.parametrize("kind", KINDS)
def test_rejected_strategies_break_the_rule_that_they_are_counted_under(kind):
    request = request_of(kind, devices=None)
    found = analyse(request, BACKENDS)
    assert found.rejected.total > 0
    names = {rule.name for rule in planned(request).rules}
    for name in found.rejected.counts:
        assert name in names
        assert found.rejected.example(found.setting, name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_strategy_keeps_its_need_on_its_own_mesh(kind):
    request = request_of(kind)
    workload, setting = planned(request), setting_of(request)
    meshes = every_mesh(request)
    strategy = workload.points(request, BACKENDS).strategy(0)
    table, need = workload.need_on_meshes(setting, meshes, like=strategy)
    assert len(table) == len(need) == len(meshes)
    assert (need > 0).all()
    row = [table.strategy(row).mesh for row in range(len(table))].index(strategy.mesh)
    trained_only = strategy.model_copy(update={"sampling": None}) if request.workload.train is not None else strategy
    part = WORKLOADS["train"] if request.workload.train is not None else workload
    assert need[row] == pytest.approx(part.need_bytes(setting, part.table_of([trained_only]))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_has_the_figures_of_the_kind(lcplan, kind):
    code, document, _ = lcplan("estimate", *asked(kind), "--mesh", "fsdp=8")
    assert code == 0
    assert document["request"]["workload"]["kind"] == kind
    estimate = document["candidate"]["estimate"]
    tokens = request_of(kind).workload.tokens
    assert estimate["tokens_per_s"] * estimate["step_s"] == pytest.approx(tokens)
    own = [name for made in WORKLOAD_TYPES.values() for name in made.facts.figures if name in estimate]
    assert own == list(WORKLOAD_TYPES[kind].facts.figures)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_names_the_unit_of_the_answer(kind):
    workload = request_of(kind).workload
    assert f" {workload.facts.unit}" in workload.description


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_searched_explained_and_kept(lcplan, tmp_path, kind):
    searched = ["search", *asked(kind), "--devices", "8", "--stages", "modelled", "--out", "run"]
    code, document, _ = lcplan(*searched)
    assert code == 0
    rates = [candidate["best"]["tokens_per_s"] for candidate in document["candidates"]]
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert rates[0] >= 0.96 * max(rates), "the winner may tie with a faster plan"
    code, explained, _ = lcplan("explain", "run")
    assert code == 0
    assert explained["candidate"] == document["winner"]
    code, named, _ = lcplan("explain", "run", "2")
    assert code == 0
    assert named["candidate"] == document["candidates"][1]
    plan = Plan.load(tmp_path / "run" / "plan.yaml")
    assert plan.request.workload.model_dump(mode="json") == document["request"]["workload"]
    assert {"devices": 8, **plan.strategy.model_dump(mode="json")} == document["winner"]["strategy"]
    plan.save(tmp_path / "again.yaml")
    assert Plan.load(tmp_path / "again.yaml") == plan
    assert lcplan("explain", "run/plan.yaml")[0] == 0
    for name in trainer_names():
        if kind not in trainer(name).workloads:
            refusal = rf"{name}: a plan of --workload {kind} is not exported to .*; (use --to .*|no trainer takes it)"
            with pytest.raises(BadInputError, match=refusal):
                export_plan(plan, name)
    if kind in trainer("jax").workloads:
        assert export_plan(plan, "jax").files


@pytest.mark.parametrize("kind", KINDS)
def test_tuning_is_refused_with_the_reason_or_taken(lcplan, kind):
    code, document, err = lcplan(
        "search", *asked(kind), "--devices", "8", "--survivors", "1", "--stages", "modelled", "--tune", "2", "--mesh", "fsdp=8"
    )
    reason = WORKLOADS[kind].not_tuned
    if reason is None:
        assert (code, len(document["tuning"])) == (0, 2)
    else:
        assert (code, document) == (2, None)
        assert f"--tune with --workload {kind}: {reason}" in err


@pytest.mark.parametrize("question", get_args(Question))
@pytest.mark.parametrize("kind", KINDS)
def test_a_question_is_answered_or_refused_by_name(lcplan, kind, question):
    vary = ["--vary", "hbm=80GiB,141GiB"] if question == "sweep" else []
    options = asked(kind, seq=question != "max-seq")
    if question == "max-batch" and "--batch" in options:  # the question finds it
        place = options.index("--batch")
        del options[place : place + 2]
    asking = ["whatif", question, *options, "--mesh", "tensor=1,context=1", *vary]
    code, document, err = lcplan(*asking)
    reason = WORKLOADS[kind].refused_questions.get(question)
    if reason is None:
        assert code == 0
        assert document["points"] if question == "sweep" else document["answer"]["candidate"]["estimate"]["fits"]
    else:
        assert (code, document) == (2, None)
        assert reason in err


@pytest.mark.parametrize("kind", KINDS)
def test_each_quantity_belongs_to_a_kind_or_is_refused_by_name(lcplan, kind):
    foreign = [name for name, quantity in QUANTITIES.items() if kind not in quantity.workloads]
    assert foreign
    for name in foreign:
        value = {"seq": "8k", "document-len": "8k", "dtype": "bf16"}.get(name) or _value(name.replace("-", "_"))
        code, _, err = lcplan("whatif", "sweep", *asked(kind), "--vary", f"{name}={value}")
        assert code == 2
        assert f"--vary {name} goes with --workload" in err


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_knob_is_accepted_or_refused_by_name(lcplan, kind, name):
    knob = KNOBS[name]
    code, document, err = lcplan("estimate", *asked(kind), "--mesh", "fsdp=8", knob.option, _value(name))
    if kind not in knob.workloads:
        assert (code, document) == (2, None)
        assert f"{knob.option} goes with --workload" in err
    else:
        assert code in (0, 2)
        assert code == 0 or name in err or knob.word in err


def _value(name):
    """A value of a knob or an axis, as a person types it: the default where it has one."""
    values = {"backend": "nccl", "prompt": "256", "generate": "256", "kv_dtype": "bf16"}
    return values.get(name) or (str(KNOBS[name].default) if name in KNOBS else "1")


@pytest.mark.parametrize("purpose", ["compile", "time"])
@pytest.mark.parametrize("kind", KINDS)
def test_jobs_are_built_for_the_compiler_and_the_clock(kind, purpose):
    host = catalog.hardware("cpu-host")
    request = request_of(kind, hardware=host, budget_bytes=host.usable_bytes, devices=None)
    strategy = resolve_strategy(request, ("host",))
    jobs = planned(request).programs(request, strategy)
    assert jobs
    works = [ProgramWork(job, purpose, toolchain=probe()) for job in jobs]
    assert len({work.key for work in works}) == len({job.program.name for job in jobs}) == len(jobs)
    for job, work in zip(jobs, works, strict=True):
        assert job.strategy.devices == strategy.devices
        assert work.task.request["job"]["program"] == job.program.module
        assert work.resolved.workload.kind == job.workload.kind
