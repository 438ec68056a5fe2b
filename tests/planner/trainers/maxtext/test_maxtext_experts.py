"""Mixtures of experts go to MaxText and come back: the model, the mesh and each dispatch with its capacity."""

import pytest
import yaml
from export_plans import make_plan, mixtures

from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.strategy import Mesh, Strategy
from planner.export.run import export_plan
from planner.imports.read import read_file
from planner.imports.step import placed
from planner.space.analysis import setting_of
from planner.trainers import trainer
from planner.trainers.common.imported import mesh_text
from planner.trainers.common.restrict import rules_for

PLANS = mixtures()


@pytest.fixture
def read(tmp_path):
    """What ``--from-maxtext`` reads in an export, or in the export with some keys replaced."""

    def _read(export, **changed):
        file = tmp_path / "maxtext.yml"
        values = yaml.safe_load(export.files["maxtext.yml"]) | changed
        file.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not None}))
        job = export.translation.job
        return read_file("maxtext", str(file), devices=job.strategy.devices, hardware=job.hardware.name)

    return _read


@pytest.mark.parametrize("name", PLANS)
def test_a_mixture_comes_back(read, name):
    export = export_plan(PLANS[name], "maxtext")
    job = export.translation.job
    imported = read(export)
    assert imported.unknown == ()
    assert imported.notes == ()
    assert imported.refuses(job) == []
    assert imported.options["model"] == PLANS[name].request.model
    assert imported.options["mesh"] == mesh_text(job.strategy.mesh.model_dump())
    assert placed(job.strategy, imported) == job.strategy
    names = ("remat", "microbatches", "loss_chunk_tokens", "gather_dtype", "reduce_dtype", "moments_dtype")
    names += ("moe_dispatch", "moe_capacity_percent")
    defaults = {"moe_dispatch": "dropless", "moe_capacity_percent": 200}
    found = {key: imported.options[key][0] if key in imported.options else defaults[key] for key in names}
    assert found == {key: getattr(job.strategy, key) for key in names}


def test_the_keys_of_each_dispatch():
    keys = ("sparse_matmul", "megablox", "capacity_factor", "ragged_buffer_factor", "use_ring_of_experts", "use_ragged_sort")
    files = {name: yaml.safe_load(export_plan(plan, "maxtext").files["maxtext.yml"]) for name, plan in PLANS.items()}
    assert {name: tuple(values.get(key) for key in keys) for name, values in files.items()} == {
        "qwen3-moe-32k-gb200": (True, False, -1.0, 2.0, None, None),
        "mixtral-16k-h200": (True, False, -1.0, -1.0, None, None),
        "qwen3-moe-64k-v5p": (True, True, -1.0, 1.5, True, True),
        "mixtral-8k-v5p": (False, False, 1.25, None, None, None),
        "mixtral-8k-fsdp": (True, False, -1.0, None, None, None),
    }


def test_experts_are_placed_outside_tensor_as_in_the_plan():
    axes = yaml.safe_load(export_plan(PLANS["qwen3-moe-32k-gb200"], "maxtext").files["maxtext.yml"])["mesh_axes"]
    assert axes.index("context") < axes.index("expert") < axes.index("tensor")
    assert "mesh_axes" not in export_plan(PLANS["mixtral-8k-fsdp"], "maxtext").files["maxtext.yml"]


def test_what_experts_keep_has_their_own_checkpoint_names():
    values = yaml.safe_load(export_plan(PLANS["mixtral-8k-v5p"], "maxtext").files["maxtext.yml"])
    assert {values[name] for name in ("moe_mlpwi_0", "moe_mlpwi_1", "moe_x_sorted")} == {"device"}
    assert "mlpwi_0" not in values


def test_sizes_are_written_without_a_name():
    """MaxText's own file of a named model wins over ours: qwen3-30b-a3b has another RoPE there."""
    assert all("model_name: default" in export_plan(plan, "maxtext").files["maxtext.yml"] for plan in PLANS.values())


def test_a_file_sets_the_sizes_of_experts(read):
    export = export_plan(PLANS["mixtral-8k-fsdp"], "maxtext")
    model = read(export, num_experts=16, base_num_decoder_layers=4).options["model"]
    assert (model.experts.count, model.experts.active, model.experts.d_ff, model.layers) == (16, 2, 14336, 4)
    with pytest.raises(BadInputError, match="d_ff"):
        read(export, base_moe_mlp_dim=None)


def test_a_name_of_a_mixture_is_read_by_itself(read):
    imported = read(export_plan(PLANS["mixtral-8k-fsdp"], "maxtext"), model_name="mixtral-8x22b")
    assert imported.options["model"] == catalog.model("mixtral-8x22b")
    assert any("next to model_name mixtral-8x22b: not read" in note for note in imported.notes)


def test_a_scale_of_parameters_widens_experts(read):
    """The first factor of two goes to heads and feed-forward (``get_individual_scales``)."""
    model = read(export_plan(PLANS["mixtral-8k-fsdp"], "maxtext"), global_parameter_scale=2).options["model"]
    assert (model.experts.d_ff, model.heads, model.d_model, model.layers) == (2 * 14336, 64, 4096, 32)


REFUSED = [
    (
        "dgx-h200x4",
        {"moe_dispatch": "capacity", "moe_capacity_percent": 0},
        {"moe_dispatch": "capacity"},
        "maxtext-moe-capacity",
    ),
    ("dgx-h200x4", {"moe_dispatch": "gather"}, {"moe_dispatch": "gather", "moe_capacity_percent": 0}, "maxtext-moe-gather"),
]


@pytest.mark.parametrize(("hardware", "bad", "good", "rule"), REFUSED)
def test_a_dispatch_that_maxtext_lacks_is_refused(ask, hardware, bad, good, rule):
    request = ask("mixtral-8x7b", hardware, seq=8192, batch=32)
    [found] = [one for one in rules_for(trainer("maxtext"), request.hardware) if one.name == rule]
    plain = Strategy(mesh=Mesh(fsdp=4, expert=8), loss_chunk_tokens=1024)
    wrong, right = (plain.model_copy(update=fields) for fields in (bad, good))
    assert found.broken(setting_of(request), StrategyTable.from_strategies([wrong, right])).tolist() == [True, False]
    assert "; use moe_" in found.explain(setting_of(request), wrong)
    with pytest.raises(BadInputError, match=r"^maxtext: moe_dispatch="):
        export_plan(make_plan("mixtral-8x7b", hardware, seq=8192, batch=32, fsdp=4, expert=8, **bad), "maxtext")


def test_a_ring_of_experts_has_a_bounded_buffer_on_tpu(ask):
    request = ask("mixtral-8x7b", "tpu-v5p-64", seq=8192, batch=32)
    [found] = [one for one in rules_for(trainer("maxtext"), request.hardware) if one.name == "maxtext-moe-gather"]
    gather = Strategy(mesh=Mesh(fsdp=4, expert=8), moe_dispatch="gather", loss_chunk_tokens=1024)
    assert found.broken(setting_of(request), StrategyTable.from_strategies([gather])).tolist() == [False]


def test_experts_that_its_blocks_cannot_build_are_refused():
    hardware = catalog.hardware("dgx-h200x4")
    [shared] = trainer("maxtext").model_problems(catalog.model("deepseek-moe-16b"))
    assert shared.startswith("deepseek-moe-16b has experts of family deepseek_v2")
    mixtral = catalog.model("mixtral-8x7b")
    sigmoid = mixtral.model_copy(update={"experts": mixtral.experts.model_copy(update={"scores": "sigmoid", "scale": 2.0})})
    [scores] = trainer("maxtext").refusals(hardware, sigmoid)
    assert scores == "the mixtral decoder block has no key for scores, scale of mixtral-8x7b's experts"
    assert trainer("maxtext").refusals(hardware, mixtral) == []


def test_differences_of_experts_are_named():
    named = {name: [one.name for one in export_plan(plan, "maxtext").translation.differences] for name, plan in PLANS.items()}
    assert all("routing-weights" in names for names in named.values())
    assert [name for name, names in named.items() if "dispatch" in names] == ["mixtral-8k-v5p"]
    dense = export_plan(make_plan("llama3-8b", "dgx-h100", seq=8192, batch=8, fsdp=8), "maxtext")
    assert "routing-weights" not in [one.name for one in dense.translation.differences]
