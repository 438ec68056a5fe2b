"""Mixtures of experts go to Megatron and torchtitan and come back: the model, the mesh, the dispatch, the memory."""

import pytest
from export_plans import make_plan, mixtures
from real_trainers import real_python

from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.export.check import check_exports
from planner.export.folder import write_export
from planner.export.run import export_plan
from planner.imports.read import read_file
from planner.imports.step import placed
from planner.space.analysis import setting_of
from planner.trainers import Job, trainer
from planner.trainers.common.imported import mesh_text
from planner.trainers.common.restrict import rules_for
from planner.trainers.common.rules import whole_loss_bytes
from planner.trainers.common.translate import further_logits

NAMES = ("megatron", "torchtitan")
PLANS = {
    **{name: mixtures()[name] for name in ("mixtral-16k-h200", "mixtral-8k-fsdp")},
    "qwen3-30b-32k": make_plan(
        "qwen3-30b-a3b", "dgx-h100x4", seq=32768, batch=128, fsdp=4, expert=8, microbatches=4, scheme="all-gather"
    ),
    "qwen3-235b-8k": make_plan("qwen3-235b-a22b", "dgx-h200x8", seq=8192, batch=64, data=2, fsdp=2, expert=16),
    "qwen3-context": make_plan(
        "qwen3-30b-a3b", "dgx-h100x4", seq=32768, batch=128, fsdp=2, context=2, expert=8, microbatches=8, scheme="all-gather"
    ),
    "qwen3-whole": make_plan(
        "qwen3-30b-a3b", "dgx-h100x4", seq=32768, batch=16, fsdp=4, context=4, tensor=2, scheme="all-gather", expert_fold=8,
        expert_tensor="whole",
    ),
    "mixtral-22b-16k": make_plan("mixtral-8x22b", "gb200-nvl72", seq=16384, batch=64, fsdp=8, expert=8, remat="save-all"),
}  # fmt: skip
CASES = [(trainer, name) for trainer in NAMES for name in PLANS]
OF_MEGATRON = {
    "tensor": make_plan("qwen3-30b-a3b", "dgx-h200x4", seq=32768, batch=32, fsdp=2, expert=8, tensor=2),
    "tensor-and-context": make_plan("qwen3-30b-a3b", "dgx-h200x4", seq=32768, batch=32, context=2, expert=8, tensor=2),
    "capacity": make_plan(
        "mixtral-8x7b", "dgx-h200x4", seq=8192, batch=32, fsdp=4, expert=8, moe_dispatch="capacity", moe_capacity_percent=125
    ),
    "gather": make_plan("mixtral-8x7b", "dgx-h200x4", seq=8192, batch=32, fsdp=4, expert=8, moe_dispatch="gather"),
    "recomputed": make_plan("mixtral-8x7b", "dgx-h200x4", seq=8192, batch=32, fsdp=4, expert=8, remat="save-except-mlp"),
    "shared": make_plan("deepseek-moe-16b", "dgx-h200", seq=4096, batch=16, fsdp=2, expert=4),
    "gated": make_plan("qwen1.5-moe-a2.7b", "dgx-h200", seq=4096, batch=16, fsdp=2, expert=4, remat="save-except-mlp"),
}
CASES += [("megatron", name) for name in OF_MEGATRON]
ALL = PLANS | OF_MEGATRON


@pytest.fixture
def read(tmp_path):
    """What lcplan reads in an export, or in its file with some text replaced."""

    def _read(export, old="", new=""):
        name, file = export.translation.trainer.name, tmp_path / export.translation.trainer.file
        text = export.files[file.name]
        assert old in text
        file.write_text(text.replace(old, new))
        job = export.translation.job
        return read_file(name, str(file), devices=job.strategy.devices, hardware=job.hardware.name)

    return _read


@pytest.mark.parametrize(("name", "plan"), CASES)
def test_a_mixture_comes_back(read, name, plan):
    export = export_plan(ALL[plan], name)
    job = export.translation.job
    imported = read(export)
    assert imported.unknown == ()
    assert imported.refuses(job) == []
    model = imported.options["model"]
    assert model == ALL[plan].request.model
    assert imported.options["mesh"] == mesh_text(job.strategy.mesh.model_dump())
    assert placed(job.strategy, imported) == job.strategy
    assert imported.options["global_batch"] == job.workload.global_batch
    defaults = {"moe_dispatch": "dropless", "expert_fold": 1, "expert_tensor": "split"}
    for knob in ("remat", "microbatches", *defaults):
        assert imported.options.get(knob, (defaults.get(knob),)) == (getattr(job.strategy, knob),)
    if job.strategy.moe_dispatch == "capacity":
        assert imported.options["moe_capacity_percent"] == (job.strategy.moe_capacity_percent,)


@pytest.mark.trainers
@pytest.mark.parametrize("name", NAMES)
def test_the_real_package_takes_them(tmp_path, name):
    python = real_python(name)
    if python is None:
        pytest.skip(f"no Python with {name}: tests/trainers/setup_venvs.sh makes one")
    exports = [(export_plan(ALL[plan], name), tmp_path / plan) for trainer, plan in CASES if trainer == name]
    for export, folder in exports:
        write_export(folder, export.files)
    for (export, folder), result in zip(exports, check_exports(exports, python), strict=True):
        assert result.good, (folder.name, result.said or result.mismatches)
        experts = export.translation.job.model.experts
        assert result.facts["experts"] == [experts.count, experts.active, experts.d_ff]
        assert result.facts["expert_ranks"] == list(export.translation.job.expert_ranks)


def test_the_arguments_of_expert_parallelism():
    text = export_plan(ALL["tensor"], "megatron").files["megatron.args"]
    for words in ("expert-model-parallel-size 8", "expert-tensor-parallel-size 2", "moe-token-dispatcher-type alltoall"):
        assert f"\n--{words}\n" in text
    assert "\n--moe-grouped-gemm\n" in text
    assert "--moe-expert-capacity-factor" not in text
    text = export_plan(ALL["capacity"], "megatron").files["megatron.args"]
    assert "\n--moe-expert-capacity-factor 1.25\n--moe-pad-expert-input-to-capacity\n" in text
    assert "model.expert_model_parallel_size=8\n" in export_plan(ALL["tensor"], "megatron").files["bridge.overrides"]


def test_dense_layers_and_their_own_recomputation():
    text = export_plan(ALL["shared"], "megatron").files["megatron.args"]
    assert "\n--moe-layer-freq ([0]*1+[1]*27)\n" in text
    assert "\n--moe-shared-expert-intermediate-size 2816\n" in text
    assert "\n--moe-router-pre-softmax\n" in text
    assert "--recompute-modules moe layernorm" in export_plan(ALL["gated"], "megatron").files["megatron.args"]


@pytest.mark.parametrize(
    ("words", "first", "every"),
    [("1", 0, 1), ("[0]*3+[1]*25", 3, 1), ("([0]+[1])*14", 0, 2), ("[0,0,1]+[0,1]*12+[1]", None, 0)],
)
def test_the_pattern_of_layers(read, words, first, every):
    export = export_plan(ALL["shared"], "megatron")
    if first is None:
        with pytest.raises(BadInputError, match=r"--moe-layer-freq .* of 28 layers lcplan has the first ones dense"):
            read(export, "([0]*1+[1]*27)", words)
        return
    experts = read(export, "([0]*1+[1]*27)", words).options["model"].experts
    assert (experts.first_dense, experts.every) == (first, every)


@pytest.mark.parametrize("words", ["([0]*1+[1]*27", "__import__('os')", "[0]*99999999"])
def test_a_pattern_is_not_run(read, words):
    with pytest.raises(BadInputError, match="--moe-layer-freq"):
        read(export_plan(ALL["shared"], "megatron"), "([0]*1+[1]*27)", words.replace("'", ""))


def test_expert_ranks_are_folded_where_context_is_outside_them():
    """The axis of the plan is inside context; the trainers' expert ranks start from the innermost rank, of context."""
    for name in NAMES:
        export = export_plan(ALL["qwen3-context"], name)
        strategy = export.translation.job.strategy
        assert (strategy.mesh.fsdp, strategy.mesh.expert, strategy.expert_fold) == (16, 1, 8)
        [effect] = [one for one in export.cost.effects if one.difference.name == "expert-ranks"]
        assert effect.difference.trainer == "the innermost 8 ranks of context and fsdp"
        assert abs(effect.memory_bytes_change) < 2**28  # the same experts and state; one more communicator
        assert effect.step_s_change is not None
    assert "expert-ranks" not in [one.name for one in export_plan(ALL["tensor"], "megatron").translation.differences]


def test_torchtitan_puts_whole_experts_on_tensor_ranks():
    export = export_plan(ALL["tensor"], "torchtitan")
    strategy = export.translation.job.strategy
    assert (strategy.mesh.expert, strategy.expert_fold, strategy.expert_tensor) == (1, 8, "whole")
    [found] = [one for one in export.translation.differences if one.name == "expert-ranks"]
    assert found.trainer == "the innermost 8 ranks of tensor, context and fsdp, which hold whole experts"
    assert "expert_parallel_degree=8" in export.files["lcplan_torchtitan.py"]


def test_whole_experts_of_megatron():
    text = export_plan(ALL["qwen3-whole"], "megatron").files["megatron.args"]
    assert "\n--expert-model-parallel-size 8\n--expert-tensor-parallel-size 1\n" in text


@pytest.mark.parametrize("name", ["maxtext", "jax"])
def test_folded_ranks_have_no_key_elsewhere(name):
    if name == "jax":
        with pytest.raises(BadInputError, match="jax: expert_fold=8: the expert ranks of lcplan's own step are an axis"):
            export_plan(ALL["qwen3-whole"], name)
        return
    named = {one.name: (one.plan, one.trainer) for one in export_plan(ALL["qwen3-whole"], name).translation.differences}
    assert named["expert-fold"] == ("8", "1")


def test_torchtitan_splits_an_expert_over_tensor_only_without_expert_ranks(ask):
    request = ask("mixtral-8x7b", "dgx-h200x4", seq=8192, batch=32)
    [rule] = [one for one in rules_for(trainer("torchtitan"), request.hardware) if one.name == "torchtitan-expert-tensor"]
    meshes = (Mesh(fsdp=2, expert=8, tensor=2), Mesh(fsdp=4, expert=8), Mesh(fsdp=16, tensor=2))
    table = StrategyTable.from_strategies([Strategy(mesh=mesh) for mesh in meshes])
    assert rule.broken(setting_of(request), table).tolist() == [True, False, False]


def test_a_dispatch_that_torchtitan_lacks_is_named():
    found = {one.name: one for one in export_plan(ALL["capacity"], "torchtitan").translation.differences}
    assert (found["moe-dispatch"].plan, found["moe-dispatch"].trainer) == ("capacity", "dropless")
    assert found["expert-buffers"].plan == "buffers of 125 % of a balanced load; further rows are dropped"


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_of_many_strategies_are_those_of_each(ask, name):
    """``--for`` counts by columns what an export counts by differences."""
    target, request = trainer(name), ask("mixtral-8x7b", "dgx-h200x4", seq=8192, batch=128)
    meshes = (Mesh(fsdp=4, expert=8), Mesh(fsdp=16, tensor=2), Mesh(data=2, fsdp=4, context=4))
    strategies = [Strategy(mesh=mesh, remat=remat) for mesh in meshes for remat in ("save-all", "full")]
    setting, table = setting_of(request), StrategyTable.from_strategies(strategies)
    jobs = [Job(request.model, request.hardware, Workload(seq_len=8192, global_batch=128), one) for one in strategies]
    by_difference = [sum(one.extra_bytes for one in target.extras(job)) for job in jobs]
    assert target.further_bytes(setting, table) == pytest.approx(by_difference, abs=2)
    assert whole_loss_bytes(setting, table) == pytest.approx([further_logits(job) for job in jobs], abs=2)
    assert by_difference[0] > by_difference[1]


def test_a_search_for_a_trainer_counts_its_own_memory(ask):
    """A plan within the budget of lcplan's step alone is over it with Megatron's bf16 weights and whole logits."""
    request = ask("qwen3-30b-a3b", "dgx-h100x4", seq=32768, batch=128)
    strategy = Strategy(mesh=Mesh(fsdp=16, context=2), scheme="ulysses", remat="save-except-mlp", microbatches=4)
    [rule] = [one for one in rules_for(trainer("megatron"), request.hardware) if one.name == "megatron-memory"]
    assert rule.broken(setting_of(request), StrategyTable.from_strategies([strategy])).tolist() == [True]
    assert "megatron itself needs" in rule.explain(setting_of(request), strategy)


def test_models_that_they_do_not_build():
    reasons = trainer("torchtitan").model_problems(catalog.model("deepseek-moe-16b"))
    assert any("have no normalized, shared_d_ff, first_dense" in reason for reason in reasons)
    assert any(
        "lcplan exports softmax scores" in one for one in trainer("megatron").model_problems(catalog.model("deepseek-v3"))
    )
