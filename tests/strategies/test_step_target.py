"""The full-size step compiles for accelerators that are not there; what the target's compiler says of it."""

import itertools
from pathlib import Path

import jax
import pytest
from as_listed import assert_as_listed, listed
from on_target import compiled, needs_gpu_compiler, needs_tpu_compiler

from cost_models.estimate import estimate
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.measure.targets.schedulers import scheduler_options

GIB = 2**30


@pytest.mark.gpu_target
@needs_gpu_compiler
def test_llama3_8b_at_256k_on_gb200():
    request = {
        "hardware": "gb200-nvl72", "model": "llama3-8b", "seq_len": 2**18, "global_batch": 1,
        "strategy": {"mesh": {"context": 16, "tensor": 2}, "scheme": "ring-zigzag", "remat": "full"},
    }  # fmt: skip
    got = compiled(**request)
    assert got["kernels"] == ["cudnn"]
    assert_as_listed(got["collectives"], listed(request))
    assert got["temp_bytes"] < 6 * GIB
    state = 3 * 4 * 8_030_261_248 / 32  # fp32 master parameters and two moments, over 32 devices
    assert got["argument_bytes"] == pytest.approx(state, rel=0.01)
    assert got["alias_bytes"] == pytest.approx(state, rel=0.01)
    rows = {tuple(row) for row in got["collectives"]}
    message = 2 * 2 * 16384 * 4 * 128  # keys and values of 16384 tokens, 4 of 8 KV heads, bf16
    # 15 hops forward, 15 run again, 14 backward, and the gradients' last hop in bf16; the gradients' others in fp32
    assert ("collective-permute", "context", message, 32 * (15 + 15 + 14 + 1)) in rows
    assert ("collective-permute", "context", 2 * message, 32 * 15) in rows
    assert ("all-gather", "tensor", 2 * 16384 * 4096, 6 * 32 + 1) in rows
    assert ("reduce-scatter", "tensor", 2 * 16384 * 4096, 5 * 32 + 1) in rows
    assert ("reduce-scatter", "context", 4 * 128256 * 4096 // 2, 2) in rows  # embedding and head
    largest_all_reduce = max(size for op, _, size, _ in rows if op == "all-reduce")
    assert largest_all_reduce < 2 * 2**20  # norms; no matrix


@pytest.mark.slow
@pytest.mark.gpu_target
@needs_gpu_compiler
@pytest.mark.parametrize("scheme", ["ring", "all-gather", "ulysses"])
def test_other_schemes_on_gb200(scheme):
    context = 4 if scheme == "ulysses" else 16
    request = {
        "hardware": "gb200-nvl72", "model": "llama3-8b", "seq_len": 16384 * context, "global_batch": 1,
        "strategy": {"mesh": {"context": context, "tensor": 2}, "scheme": scheme},
    }  # fmt: skip
    got = compiled(**request)
    assert got["kernels"] == ["cudnn"]
    assert_as_listed(got["collectives"], listed(request))
    moving = {"ring": "collective-permute", "all-gather": "all-gather", "ulysses": "all-to-all"}[scheme]
    assert any(op == moving and axis == "context" for op, axis, _, _ in got["collectives"])


@pytest.mark.slow
@pytest.mark.tpu_target
@needs_tpu_compiler
def test_llama3_8b_at_256k_on_v5p():
    strategy = {"mesh": {"context": 16, "tensor": 2}, "scheme": "ring-zigzag", "remat": "full"}
    got = compiled(strategy=strategy, hardware="tpu-v5p-64")
    assert got["kernels"] == ["splash"]
    assert got["temp_bytes"] < 9 * GIB
    assert any(op == "collective-permute" for op, *_ in got["collectives"])


GPU_RINGS = [
    {"mesh": {"context": 8}, "scheme": "ring-zigzag"},
    {"mesh": {"context": 8}, "scheme": "ulysses-ring", "ulysses": 2},
]
TPU_RINGS = [{"mesh": {"context": 4}, "scheme": "ring-zigzag", "bidirectional": way} for way in ("off", "on")]


def assert_messages_travel_beside_kernels(loops):
    """Forward, forward again and backward: whatever starts is done after a kernel that was issued in between."""
    assert len(loops) >= 3
    for order in loops:
        assert order[0] == "start", order
        for word, following in itertools.pairwise(order):
            assert (word, following) != ("start", "done"), order


@pytest.mark.gpu_target
@needs_gpu_compiler
@pytest.mark.parametrize("strategy", GPU_RINGS, ids=str)
def test_hops_of_a_gb200_run_beside_kernels(strategy):
    loops = compiled(strategy=strategy, model="llama3.2-1b", changes={"layers": 2}, seq_len=16384)["ring_loops"]
    assert_messages_travel_beside_kernels(loops)


@pytest.mark.slow
@pytest.mark.tpu_target
@needs_tpu_compiler
@pytest.mark.parametrize("strategy", TPU_RINGS, ids=str)
def test_hops_of_a_v5p_run_beside_kernels(strategy):
    strategy = {**strategy, "backend": "ici"}
    changes = {"layers": 2}
    loops = compiled(strategy=strategy, hardware="tpu-v5p-8", model="llama3-8b", changes=changes, seq_len=16384)["ring_loops"]
    assert_messages_travel_beside_kernels(loops)
    lanes = 2 if strategy["bidirectional"] == "on" else 1
    assert min(order.count("start") for order in loops) == lanes


@pytest.mark.slow
@pytest.mark.gpu_target
@needs_gpu_compiler
def test_a_gb200_sends_one_of_two_lanes_beside_kernels():
    """XLA has one permute under way at a time on GPU, which is why the law hides one lane of two there."""
    strategy = {"mesh": {"context": 8}, "scheme": "ring-zigzag", "bidirectional": "on"}
    loops = compiled(strategy=strategy, model="llama3.2-1b", changes={"layers": 2}, seq_len=16384)["ring_loops"]
    for order in loops:
        assert ("start", "start") not in itertools.pairwise(order)


@pytest.mark.gpu_target
@needs_gpu_compiler
@pytest.mark.parametrize(("ways", "alone"), [("one-way", (0, 1)), ("two-way", (2, 5))])
def test_pieces_of_a_gb200s_collective_matmul_travel_beside_products(ways, alone):
    """Hops that nothing hides, of the forward and of the backward pass, as ``collectives.collective_matmul`` counts them.

    One-way: the backward pass has the feed-forward's rows and its cotangent on their way at once, so that one hop waits for
    the other. Two-way: (4 - 1) // 2 = 1 hop of rows back in each of 2 and 4 gathers, and the same one.
    """
    got = compiled(
        model="llama3-8b", changes={"layers": 2, "vocab": 4096}, seq_len=65536,
        strategy={"mesh": {"tensor": 4}, "collective_matmul": ways},
    )  # fmt: skip
    forward, backward = sorted(got["products_beside_hops"], key=len)
    assert (len(forward), len(backward)) == (4 * 3, 7 * 3)
    assert (forward.count(0), backward.count(0)) == alone


@pytest.mark.slow
@pytest.mark.tpu_target
@needs_tpu_compiler
def test_every_piece_of_a_v5es_collective_matmul_travels_beside_products():
    got = compiled(
        hardware="tpu-v5e-4", model="llama3.2-1b", changes={"layers": 2, "vocab": 4096}, seq_len=8192,
        strategy={"mesh": {"tensor": 4}, "collective_matmul": "one-way", "backend": "ici"},
    )  # fmt: skip
    forward, backward = sorted(got["products_beside_hops"], key=len)[-2:]
    assert (len(forward), len(backward)) == (4 * 3, 7 * 3)
    assert min(*forward, *backward) >= 1


@pytest.mark.slow
@pytest.mark.tpu_target
@needs_tpu_compiler
def test_a_v5p_holds_less_without_the_latency_hiding_scheduler():
    """The flag of Optimizing an LLM RL pipeline (LMPO), by its name under this jax; docs/step/scheduler.md has both sizes."""
    request = {
        "hardware": "tpu-v5p-8", "model": "qwen3-1.7b", "changes": {"layers": 4, "vocab": 2048}, "seq_len": 1024,
        "global_batch": 32, "strategy": {"mesh": {"fsdp": 4}, "backend": "ici"},
    }  # fmt: skip
    options = {option.name: option.proto for option in scheduler_options("no-latency-hiding", "tpu", jax=jax.__version__)}
    assert options == {"xla_tpu_enable_latency_hiding_scheduler": False}
    default, without = compiled(**request), compiled(**request, options=options)
    assert without["temp_bytes"] < 0.99 * default["temp_bytes"]
    assert without["schedule"]["overlapped"] < default["schedule"]["overlapped"]
    page = (Path(__file__).parents[2] / "docs" / "step" / "scheduler.md").read_text()
    shown = f"takes temp from {default['temp_bytes'] / GIB:.3f} to {without['temp_bytes'] / GIB:.3f} GiB"
    assert shown in page


@pytest.mark.gpu_target
@needs_gpu_compiler
def test_offloading_on_a_gb200_leaves_hops_beside_kernels_and_reads_when_it_needs():
    """A layer's input is written beside the layer's products; it is read when nothing of the layer can run without it."""
    strategy = {"mesh": {"context": 8}, "scheme": "ring-zigzag", "remat": "offload-layer-in"}
    got = compiled(strategy=strategy, model="llama3.2-1b", changes={"layers": 3, "vocab": 4096}, seq_len=16384)
    assert got["host_temp_bytes"] == 3 * 2 * 2048 * 2048
    assert_messages_travel_beside_kernels(got["ring_loops"])
    written, *read = got["products_beside_host_copies"]
    assert max(written) >= 4
    assert max(count for counts in read for count in counts) <= 1


@pytest.mark.slow
@pytest.mark.gpu_target
@needs_gpu_compiler
def test_documents_keep_cudnn_and_one_bias():
    """A bias of 16384 x 16384 at a time and ids once: no constant of that size, no second copy."""
    strategy = {"mesh": {"context": 16, "tensor": 2}, "scheme": "ring-zigzag", "remat": "full"}
    got = compiled(model="llama3-8b", strategy=strategy, document_len=8192)
    assert got["kernels"] == ["cudnn"]
    assert ["all-gather", "context", 4 * 262144, 1] in got["collectives"]
    machine = hardware("gb200-nvl72")
    work = Workload(seq_len=262144, global_batch=1, document_len=8192)
    setting = Setting(model("llama3-8b"), machine, work, machine.usable_bytes)
    law = estimate(setting, StrategyTable.from_strategies([Strategy.model_validate(strategy)])).total_bytes[0]
    assert got["argument_bytes"] + got["temp_bytes"] == pytest.approx(law, rel=0.05)
