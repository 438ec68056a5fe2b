"""The expert axis in the space, by its rules, and what a request says of models that are counted only."""

import pytest

import planner
from lcplan.catalog import model
from lcplan.formats.errors import BadInputError
from lcplan.strategy import AXES
from planner.request.filters import AxisFilter, Filters
from planner.request.request import make_request
from planner.run.toolchain_offer import default_stage
from planner.space.meshes import every_mesh
from planner.workloads.points import analyse

EXPERT = AXES.index("expert")


def test_a_mixture_of_experts_opens_the_axis_and_a_dense_model_does_not(ask):
    assert set(every_mesh(ask(model="mixtral-8x7b", devices=8))[:, EXPERT]) == {1, 2, 4, 8}
    assert set(every_mesh(ask(devices=8))[:, EXPERT]) == {1}


def test_asking_a_dense_model_for_experts_rejects_every_mesh_with_the_reason(ask):
    request = ask(devices=8, filters=Filters(mesh={"expert": AxisFilter(intervals=((2, 8),))}))
    found = analyse(request, ("nccl",))
    assert len(found.table) == 0
    assert "experts" in found.rejected.counts


def test_every_strategy_that_is_priced_splits_the_experts_whole(ask):
    found = analyse(ask(model="qwen3-30b-a3b", seq=131072, batch=32, devices=64), ("nccl",))
    assert set(found.table.expert) == {1, 2, 4, 8, 16, 32}  # 32 sequences bound it; 128 experts do not
    assert (128 % found.table.expert == 0).all()
    assert found.estimates.fits.any()


def test_latent_attention_is_planned_but_neither_compiled_nor_timed(ask):
    options = {"model": "deepseek-v3", "seq": "4k", "hw": "dgx-h100x64", "mesh": "fsdp=16,expert=32"}
    found = planner.estimate(**options)
    assert found.candidate.estimate["fits"]
    assert default_stage(ask(model="deepseek-v3")) == "modelled"
    with pytest.raises(BadInputError, match="no step computes its multi-head latent attention, so there is nothing to compile"):
        planner.estimate(**options, compiled=True)
    with pytest.raises(BadInputError, match="ask for --stages modelled"):
        planner.search(**options, stages="compiled")


@pytest.mark.parametrize("name", ["llama4-scout"])
def test_models_that_are_counted_only_are_refused_by_name(ask, name):
    data = ask().model_dump() | {"model": model(name).model_dump()}
    with pytest.raises(BadInputError, match=f"{name} is counted, not planned; lcplan's step does not support: "):
        make_request(data)
