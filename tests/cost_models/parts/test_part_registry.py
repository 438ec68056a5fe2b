"""The registry of parts: the estimates have exactly its keys, and every list of parts derives from it."""

from dataclasses import replace
from typing import get_args

import pytest

from cost_models.collectives.step import terms_of
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.parts.find import MEMORY, TIME, memory_label, time_label
from cost_models.parts.memory import ITERATION_MEMORY, ROLLOUT_MEMORY, STEP_MEMORY
from cost_models.parts.part import MemoryKind, TimeKind, keys
from cost_models.parts.time import ITERATION_TIME, ROLLOUT_TIME, STEP_TIME, communication_seconds, part_with_purpose
from cost_models.rates.rate import Rates
from cost_models.rollout.estimate import estimate_rollout
from cost_models.rollout.iteration import IterationTable, estimate_iteration
from cost_models.rollout.table import RolloutTable
from lcplan.catalog import hardware, model
from lcplan.spec.rollout_workloads import RlWorkload, SampleWorkload
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEMES, Mesh, Sampling, Strategy

PARTS = [*STEP_MEMORY, *ROLLOUT_MEMORY, *STEP_TIME, *ROLLOUT_TIME]
MIXTURE = Strategy(mesh=Mesh(data=2, fsdp=2, context=2, tensor=2, expert=2), microbatches=1, moe_dispatch="dropless")
ROLLOUT = Strategy(mesh=Mesh(fsdp=8), sampling=Sampling(mesh=Mesh(fsdp=8), parameters="gathered-once", cache="whole"))


def setting(workload, *, spec="qwen3-30b-a3b", machine="gb200-nvl72"):
    found = hardware(machine)
    return Setting(model(spec), found, workload, found.usable_bytes)


@pytest.fixture(scope="module")
def mixture():
    """A mixture of experts whose mesh has every axis."""
    return setting(Workload(seq_len=8192, global_batch=32))


def test_a_train_steps_parts_are_those_of_the_registry(mixture):
    row = estimate(mixture, StrategyTable.from_strategies([MIXTURE])).row(0)
    assert tuple(row["memory_bytes"]) == ("total", *keys(STEP_MEMORY))
    assert tuple(row["time_s"]) == keys(STEP_TIME)


def test_a_pytorch_steps_parts_are_the_same(mixture):
    torch = replace(mixture, model=model("llama3-8b"), program=mixture.program.model_copy(update={"runtime": "torch"}))
    row = estimate(torch, StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=8))])).row(0)
    assert tuple(row["memory_bytes"]) == ("total", *keys(STEP_MEMORY))


def test_a_rollouts_parts_are_those_of_the_registry():
    sample = setting(SampleWorkload(prompt=256, generate=256, batch=64), spec="qwen3-1.7b", machine="dgx-h100")
    row = estimate_rollout(sample, RolloutTable.from_strategies([ROLLOUT])).row(0)
    assert tuple(row["memory_bytes"]) == ("total", *keys(ROLLOUT_MEMORY))
    assert tuple(row["time_s"]) == keys(ROLLOUT_TIME)


def test_an_iterations_parts_are_both_and_the_resharding():
    both = setting(RlWorkload(prompt=256, generate=256, batch=64), spec="qwen3-1.7b", machine="dgx-h100")
    row = estimate_iteration(both, IterationTable.from_strategies([ROLLOUT])).row(0)
    assert tuple(row["memory_bytes"]) == ("total", *keys(ITERATION_MEMORY))
    assert tuple(row["time_s"]) == keys(ITERATION_TIME)


@pytest.mark.parametrize("part", PARTS, ids=[part.key for part in PARTS])
def test_every_part_is_described(part):
    assert part.kind in (get_args(MemoryKind) if part in MEMORY.values() else get_args(TimeKind))
    assert part.label == part.label.strip() != ""
    assert part.meaning[0].isupper()
    assert part.meaning.endswith(".")
    assert (part.axis is not None) == bool(part.purposes)
    assert set(part.rates) <= set(Rates.__dataclass_fields__)
    if part.rates:
        assert part.kind == "compute"


def test_a_key_and_a_label_name_one_part():
    for parts in (STEP_MEMORY, ROLLOUT_MEMORY, ITERATION_MEMORY, STEP_TIME, ROLLOUT_TIME, ITERATION_TIME):
        assert len(set(keys(parts))) == len({part.label for part in parts}) == len(parts)
    for parts, known in ((ROLLOUT_MEMORY, MEMORY), (STEP_MEMORY, MEMORY), (ROLLOUT_TIME, TIME), (STEP_TIME, TIME)):
        assert all(known[part.key] is part for part in parts), "a key that two workloads share is one record"


def test_every_compute_part_names_its_rates_and_every_axis_has_a_communication_part():
    assert all(part.rates for part in (*STEP_TIME, *ROLLOUT_TIME) if part.kind == "compute")
    assert {part.axis for part in STEP_TIME if part.axis} == set(Mesh.model_fields)


def test_communication_is_all_of_its_kind_and_nothing_else():
    seconds = {part.key: 1.0 for part in (*STEP_TIME, *ITERATION_TIME)}
    found = communication_seconds(seconds)
    assert {key for key in found if key in keys(STEP_TIME)} == {
        "comm_fsdp",
        "comm_tensor",
        "comm_context",
        "comm_expert",
        "comm_data",
        "comm_pipe",
        "contention",
    }
    assert {key.split("_", 1)[1] for key in found if key.startswith("train_")} == set(found) & set(keys(STEP_TIME))
    assert {key for key in found if key.startswith("rollout_")} == {"rollout_comm_fsdp", "rollout_comm_tensor"}
    assert "reshard" in found


@pytest.mark.parametrize("spec", ["llama3-8b", "gemma-2-27b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("document_len", [None, 1024])
def test_every_collective_belongs_to_a_part_of_one_of_its_axes(spec, scheme, document_len):
    workload = Workload(seq_len=8192, global_batch=32, document_len=document_len)
    mesh = Mesh(data=2, fsdp=2, context=4, tensor=2)
    strategy = Strategy(mesh=mesh, scheme=scheme, ulysses=2 if scheme == "ulysses-ring" else 1)
    terms = terms_of(Layout(setting(workload, spec=spec), StrategyTable.from_strategies([strategy])))
    assert {part_with_purpose(term.purpose).key for term in terms} >= {"comm_fsdp", "comm_tensor", "comm_context", "comm_data"}
    for term in terms:
        assert part_with_purpose(term.purpose).axis in term.axes


def test_labels_of_parts_of_older_runs_are_their_keys_in_words():
    assert (memory_label("grads"), time_label("gemm")) == ("gradients", "matrix products")
    assert (memory_label("old_part"), time_label("old_part")) == ("old part", "old part")
