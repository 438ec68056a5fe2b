"""Reduce-scatters on TPU: beside nothing, and over some whole slices all-reduces."""

from dataclasses import replace

import pytest

from cost_models.collectives.libtpu_reductions import sums_everywhere
from cost_models.collectives.network import Network
from cost_models.collectives.step import collectives, terms_of
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS, STEP
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


def setting(name):
    machine = hardware(name)
    return Setting(model("llama3-8b"), machine, Workload(seq_len=65536, global_batch=64), machine.usable_bytes)


def ops(name, mesh, **fields):
    uses = collectives(setting(name), Strategy(mesh=mesh, backend="ici", **fields))
    return {use.purpose: use.op for use in uses if use.op in ("reduce-scatter", "all-reduce")}


@pytest.mark.parametrize("edges", [(2, 2, 2), (2, 2, 4), (4, 4, 4), (4, 4), (16, 16), (1, 4, 4)])
def test_slices_that_are_summed_everywhere(edges):
    assert sums_everywhere(edges)


@pytest.mark.parametrize("edges", [(2, 2, 1), (2, 2), (2, 4), (8, 16), (1, 1, 4), (1, 1)])
def test_slices_that_are_not(edges):
    assert not sums_everywhere(edges)


def test_a_group_that_is_the_whole_slice_sums_and_a_part_of_it_scatters():
    whole = ops("tpu-v5p-16", Mesh(fsdp=2, context=4))
    assert (whole["weights"], whole["tables"]) == ("all-reduce", "all-reduce")
    part = ops("tpu-v5p-16", Mesh(context=4, tensor=2))
    assert (part["weights"], part["tables"], part["stream"]) == ("reduce-scatter",) * 3


def test_the_block_of_a_larger_slice_that_a_job_takes_decides():
    # 4 of 32 devices are a flat 2 x 2 x 1, 8 a cube; a v5e of 2 x 4 is flat and oblong
    assert ops("tpu-v5p-64", Mesh(context=4))["weights"] == "reduce-scatter"
    assert ops("tpu-v5p-64", Mesh(context=8))["weights"] == "all-reduce"
    assert ops("tpu-v5e-8", Mesh(context=8))["weights"] == "reduce-scatter"
    assert ops("tpu-v5e-16", Mesh(context=16))["weights"] == "all-reduce"


def test_two_devices_a_chip_and_other_machines_scatter():
    assert ops("tpu-7x-16", Mesh(context=16))["weights"] == "reduce-scatter"
    scattered = collectives(
        Setting(model("llama3-8b"), hardware("gb200-nvl72"), Workload(seq_len=65536, global_batch=64), 1 << 37),
        Strategy(mesh=Mesh(context=8)),
    )
    assert {use.op for use in scattered if use.purpose == "tables"} == {"all-gather", "reduce-scatter"}


def test_gathered_keys_and_values_too():
    assert ops("tpu-v5p-16", Mesh(context=8), scheme="all-gather")["kv-gradients"] == "all-reduce"


def test_bytes_and_calls_are_those_of_the_scatter():
    strategies = Strategy(mesh=Mesh(context=4), backend="ici"), Strategy(mesh=Mesh(context=8), backend="ici")
    moved = [
        [(use.bytes, use.calls) for use in collectives(setting("tpu-v5p-64"), one) if (use.purpose, use.op) == ("tables", op)]
        for one, op in zip(strategies, ("reduce-scatter", "all-reduce"), strict=True)
    ]
    assert moved[0] == moved[1] == [(4 * 128256 * 4096, 2)]


def test_rows_of_both_kinds_in_one_table_are_as_each_alone():
    strategies = [Strategy(mesh=Mesh(fsdp=8), backend="ici"), Strategy(mesh=Mesh(fsdp=4, tensor=2), backend="ici")]
    here = setting("tpu-v5p-16")
    together = estimate(here, StrategyTable.from_strategies(strategies)).step_s
    alone = [estimate(here, StrategyTable.from_strategies([one])).step_s[0] for one in strategies]
    assert together == pytest.approx(alone, rel=1e-12)


def test_another_trainers_program_is_left_alone():
    torch = replace(setting("tpu-v5p-16"), program=STEP.model_copy(update={"runtime": "torch"}))
    uses = collectives(torch, Strategy(mesh=Mesh(context=8), backend="ici"))
    assert {use.op for use in uses if use.purpose == "weights"} == {"all-gather", "reduce-scatter"}


def test_a_cube_sums_a_table_over_its_three_links():
    """V D in fp32 is 128256 x 4096 x 4 = 2.101e9 bytes; 2 x 7/8 of it over three links of 90 GB/s take 13.62 ms."""
    here = setting("tpu-v5p-16")
    layout = Layout(here, StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=8), backend="ici")]))
    network = Network.of(layout, rates_for(here))
    (summed,) = [term for term in terms_of(layout) if term.purpose == "tables" and term.op == "all-reduce"]
    assert network.seconds(summed)[0] == pytest.approx(13.62e-3, rel=0.01)


def test_nothing_hides_a_reduction_on_tpu_and_products_hide_one_of_another_program():
    """One layer's gradients leave 4 of 8 chips (2 x 2 x 1): all of it is waited for; MaxText's may run beside products."""
    here, strategy = setting("tpu-v5p-8"), Strategy(mesh=Mesh(fsdp=4), backend="ici")
    maxtext = replace(here, program=PROGRAMS["maxtext"])
    table = StrategyTable.from_strategies([strategy])
    for one, schedule in ((here, "exposed"), (maxtext, "behind-backward")):
        found = [
            term.schedule for term in terms_of(Layout(one, table)) if (term.purpose, term.op) == ("weights", "reduce-scatter")
        ]
        assert found == [schedule]
    layout = Layout(here, table)
    waits = sum(
        float((term.calls * Network.of(layout, rates_for(here)).seconds(term))[0])
        for term in terms_of(layout)
        if term.op == "reduce-scatter"
    )
    assert estimate(here, table).time_s["comm_fsdp"][0] > waits


@pytest.mark.parametrize(("name", "reductions"), [("llama3-8b", 4 + 1), ("llama3.2-1b", 4 + 4)])
def test_an_embedding_of_its_own_is_reduced_once_a_step(name, reductions):
    """Four microbatches: the head's gradient is reduced in each; an embedding that is the head has no sum of its own."""
    here = replace(setting("tpu-v5p-8"), model=model(name))
    uses = collectives(here, Strategy(mesh=Mesh(fsdp=4), backend="ici", microbatches=4))
    assert [use.calls for use in uses if (use.purpose, use.op) == ("tables", "reduce-scatter")] == [reductions]
