"""estimate: parts add up, columns equal single rows, and what must rise rises."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.estimate import CHUNK_ROWS, allowance_bytes, estimate
from cost_models.inputs.kernel_groups import kernel_groups
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEMES, Mesh, Strategy

powers = st.sampled_from([1, 2, 4, 8])
points = st.builds(
    Strategy,
    mesh=st.builds(Mesh, data=st.sampled_from([1, 2]), fsdp=st.sampled_from([1, 2]), context=powers, tensor=powers),
    microbatches=st.sampled_from([1, 2, 4]),
    loss_chunk_tokens=st.sampled_from([512, 2048, 8192]),
    **{name: st.sampled_from(codes) for name, codes in CODES.items()},
)


def table(*strategies):
    return StrategyTable.from_strategies(list(strategies))


@pytest.mark.parametrize("remat", ["full", "save-attention", "save-all"])
def test_exposed_hops_are_the_rings_own(remat):
    """Between nodes a hop of 256 tokens outlasts the kernel beside it; that is no time of other schemes in the same table."""
    hardware = catalog.hardware("dgx-h100x4")
    workload = Workload(seq_len=4096, global_batch=64)
    setting = Setting(catalog.model("llama3-70b"), hardware, workload, hardware.usable_bytes)
    mesh = Mesh(fsdp=2, context=16)
    each = [
        Strategy(mesh=mesh, scheme=scheme, remat=remat, loss_chunk_tokens=256) for scheme in SCHEMES if scheme != "ulysses-ring"
    ]
    each.append(Strategy(mesh=mesh, scheme="ulysses-ring", ulysses=4, remat=remat, loss_chunk_tokens=256))
    together = estimate(setting, table(*each))
    assert [estimate(setting, table(one)).row(0) for one in each] == [together.row(i) for i in range(len(each))]
    assert (together.time_s["comm_context"] > 0).all()


@settings(deadline=None)
@given(st.lists(points, min_size=1, max_size=6))
def test_parts_add_up_and_rows_equal_single_estimates(llama, strategies):
    together = estimate(llama, table(*strategies))
    memory = sum(together.memory_bytes.values())
    assert memory.tolist() == pytest.approx(together.total_bytes.tolist(), rel=1e-12)
    assert sum(together.time_s.values()).tolist() == pytest.approx(together.step_s.tolist(), rel=1e-12)
    for i, strategy in enumerate(strategies):
        assert estimate(llama, table(strategy)).row(0) == together.row(i)


@settings(deadline=None)
@given(points)
def test_nothing_is_negative_or_infinite(llama, strategy):
    row = estimate(llama, table(strategy)).row(0)
    numbers = [*row["memory_bytes"].values(), *row["time_s"].values()]
    assert all(np.isfinite(number) and number >= 0 for number in numbers)
    assert row["step_s"] > 0
    assert 0 < row["mfu_ratio"] < 1


@settings(deadline=None)
@given(points)
def test_twice_the_length_takes_more_time_and_no_less_memory(llama, strategy):
    longer = replace(llama, workload=Workload(seq_len=2 * llama.workload.seq_len, global_batch=16))
    short, long = estimate(llama, table(strategy)), estimate(longer, table(strategy))
    assert long.step_s[0] > 2 * short.step_s[0] * 0.99
    assert long.total_bytes[0] >= short.total_bytes[0]


@settings(deadline=None)
@given(points)
def test_throughput_is_tokens_over_time_in_every_convention(llama, strategy):
    row = estimate(llama, table(strategy))
    assert row.tokens_per_s[0] * row.step_s[0] == pytest.approx(llama.workload.tokens)
    assert 1 < row.full_attention_tflop_per_s_per_device[0] / row.tflop_per_s_per_device[0] < 2


def test_a_row_is_plain_json_with_the_agreed_keys(llama):
    row = estimate(llama, table(Strategy(mesh=Mesh(context=16, tensor=2), microbatches=16))).row(0)
    assert json.loads(json.dumps(row)) == row
    agreed = {
        "step_s",
        "tokens_per_s",
        "tflop_per_s_per_device",
        "mfu_ratio",
        "fits",
        "memory_bytes",
        "allowance_bytes",
        "time_s",
    }
    assert agreed <= set(row)
    parts = {name: size for name, size in row["memory_bytes"].items() if name != "total"}
    assert sum(parts.values()) == row["memory_bytes"]["total"]
    assert row["basis"]["gemm"].startswith("measured: ")
    assert row["basis"]["hbm"].startswith("fallback: ")


def test_chunked_pricing_joins_in_order(llama):
    strategies = [Strategy(mesh=Mesh(context=c), microbatches=16) for c in (2, 4, 8)]
    many = table(*strategies).take(np.arange(CHUNK_ROWS + 5) % 3)
    result = estimate(llama, many)
    assert len(result) == CHUNK_ROWS + 5
    few = estimate(llama, table(*strategies))
    assert result.step_s.tolist() == few.step_s[np.arange(CHUNK_ROWS + 5) % 3].tolist()
    assert result.memory_bytes["grads"].tolist() == few.memory_bytes["grads"][np.arange(CHUNK_ROWS + 5) % 3].tolist()


def test_an_empty_table_gives_empty_columns(llama):
    assert len(estimate(llama, table(Strategy(mesh=Mesh())).take(slice(0, 0)))) == 0


def test_fits_is_total_plus_allowance_against_the_budget(llama):
    one = table(Strategy(mesh=Mesh(context=16, tensor=2), microbatches=16))
    need = estimate(llama, one)
    edge = int(np.ceil(need.total_bytes[0] + need.allowance_bytes[0]))
    assert estimate(replace(llama, budget_bytes=edge), one).fits.tolist() == [True]
    assert estimate(replace(llama, budget_bytes=edge - 1), one).fits.tolist() == [False]


def test_allowance_counts_a_communicator_for_each_kind_of_group(llama):
    allowance = llama.hardware.allowance
    # context 16, tensor 2: context, tensor, and fsdp with context
    many = Layout(llama, table(Strategy(mesh=Mesh(context=16, tensor=2)), Strategy(mesh=Mesh())))
    three = allowance.runtime_bytes.value + 3 * allowance.communicator_bytes.value
    assert allowance_bytes(many).tolist() == [three, allowance.runtime_bytes.value]


def test_zigzag_beats_the_contiguous_ring(llama):
    both = estimate(llama, table(*(Strategy(mesh=Mesh(context=16), scheme=s) for s in ("ring", "ring-zigzag"))))
    assert both.time_s["attention"][0] / both.time_s["attention"][1] == pytest.approx(31 / 16, rel=0.05)


def test_short_chunks_on_a_tpu_are_priced_as_the_blockwise_kernel_that_they_run():
    """4096 tokens over 16 and 32 ranks: half chunks of 128 tokens run splash, those of 64 run blockwise."""
    machine = catalog.hardware("tpu-v5p-64")
    setting = Setting(catalog.model("llama3-8b"), machine, Workload(seq_len=4096, global_batch=32), machine.usable_bytes)
    strategies = [Strategy(mesh=Mesh(context=context), backend="ici") for context in (32, 16, 32)]
    together = estimate(setting, table(*strategies))
    assert [estimate(setting, table(one)).row(0) for one in strategies] == [together.row(i) for i in range(3)]
    kernels = {rows.size: group.kernel for group, rows in kernel_groups(setting, table(*strategies))}
    assert kernels == {1: "splash", 2: "blockwise"}
    as_splash = estimate(replace(setting, shortest_chunk=128), table(strategies[0]))
    assert together.time_s["attention"][0] > as_splash.time_s["attention"][0]
