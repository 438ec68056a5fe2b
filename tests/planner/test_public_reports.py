"""Public bug reports as cases: what went wrong there, lcplan must say before anything is launched. Each names its source."""

import pytest

from cost_models.inputs.table import StrategyTable
from lcplan import catalog
from lcplan.formats.units import GIB
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from lcplan.strategy.remat import GRID_POLICIES, REMAT_POLICIES
from planner.request.filters import Filters
from planner.request.request import make_request
from planner.space.analysis import setting_of
from planner.workloads.points import analyse, broken_rules
from planner.workloads.pricing import price


def _request(model, hw, *, seq, batch, **fields):
    hardware = catalog.hardware(hw)
    spec = catalog.model(model) if isinstance(model, str) else model
    workload = Workload(seq_len=seq, global_batch=batch)
    data = {"model": spec, "hardware": hardware, "workload": workload, "budget_bytes": hardware.usable_bytes}
    return make_request(data | fields)


def _valid(request, axis, sizes, **strategy):
    setting = setting_of(request)
    return [n for n in sizes if not broken_rules(setting, Strategy(mesh=Mesh(**{axis: n}), loss_chunk_tokens=1024, **strategy))]


def test_ulysses_degrees_of_40_heads_and_8_kv_heads():
    """verl-project/verl#1226, Qwen2.5-14B: degrees 1, 2, 4, 8 and 40 work, 16 and 32 do not."""
    request = _request("qwen2.5-14b", "gb200-nvl72", seq=40 * 8 * 1024, batch=8)
    assert _valid(request, "context", (2, 4, 8, 16, 32, 40), scheme="ulysses") == [2, 4, 8, 40]


def test_tensor_sizes_of_52_heads():
    """deepspeedai/DeepSpeed#3634, LLaMA-30B (52 heads): tensor 8 fails; 1, 2, 4, 13, 26, 52 divide."""
    base = catalog.model("llama2-13b")
    sizes = {"layers": 60, "d_model": 6656, "heads": 52, "kv_heads": 52, "d_ff": 17920, "name": "llama-30b"}
    request = _request(base.model_copy(update=sizes), "gb200-nvl72", seq=2**15, batch=8)
    setting = setting_of(request)
    broken = {n: broken_rules(setting, Strategy(mesh=Mesh(tensor=n), loss_chunk_tokens=1024)) for n in (1, 2, 4, 8)}
    assert [n for n, problems in broken.items() if not problems] == [1, 2, 4]
    assert "tensor=8 does not divide heads=52 of llama-30b; use 2, 4, 13 or 26" in broken[8][0]


def test_tensor_8_on_28_heads():
    """Qwen2.5-7B (its config.json) has 28 heads and 4 key/value heads: tensor 8 does not divide the heads."""
    request = _request("qwen2.5-7b", "dgx-h100", seq=2**15, batch=8)
    assert _valid(request, "tensor", (1, 2, 4, 8)) == [1, 2, 4]


def test_tensor_above_the_kv_heads_is_replication_not_an_error():
    """Megatron-Core accepts tensor above the key/value groups where one divides the other (transformer_config.py)."""
    request = _request("llama3-8b", "gb200-nvl72", seq=2**17, batch=8)
    assert _valid(request, "tensor", (8, 16, 32)) == [8, 16, 32]


def test_a_sequence_that_tensor_and_context_do_not_divide():
    """pytorch/torchtitan#1306: silent wrong shapes with sequence parallelism before it was checked."""
    request = _request("llama3-8b", "dgx-h100", seq=4098, batch=8)
    problems = broken_rules(setting_of(request), Strategy(mesh=Mesh(tensor=4), loss_chunk_tokens=4098))
    assert any("does not divide seq_len=4098" in problem for problem in problems)


def test_256k_without_context_parallelism_fits_no_zero_setting():
    """Ascend/pytorch#101: Qwen3-4B at 256k on 8 devices of 64 GB under ZeRO-3 ran out of memory.

    Nothing there shards the sequence. The residual stream alone, kept once a layer, is 36 x 262144 x 2560 x 2 bytes = 45 GiB.
    Activations were not offloaded there, so the space asked here holds the policies that keep all on the device.
    """
    request = _request("qwen3-4b", "dgx-a100-80", seq=262144, batch=8, budget_bytes=64 * 10**9)
    estimate = price(request, Strategy(mesh=Mesh(fsdp=8), loss_chunk_tokens=4096)).estimate
    assert estimate["memory_bytes"]["saved_activations"] == pytest.approx(45.0 * GIB, rel=0.01)
    assert not estimate["fits"]
    on_device = Filters(remat=tuple(name for name in GRID_POLICIES if not REMAT_POLICIES[name].offloaded))
    sharded = analyse(request.model_copy(update={"devices": 8, "filters": on_device}), ("nccl",))
    zero_alone = (sharded.table.context == 1) & (sharded.table.tensor == 1)
    assert zero_alone.any()
    assert not sharded.estimates.fits[zero_alone].any()
    best = next(sharded.survivors())
    assert best.strategy.mesh.context > 1


def test_70b_with_fp32_adam_does_not_fit_one_node():
    """meta-pytorch/torchtune#987: a 70B full fine-tune on 8 x A100 80GB works only with 8-bit or paged Adam in bf16.

    fp32 parameters, gradients and two moments are 16 x 70.6e9 / 8 = 141 GB a device.
    """
    request = _request("llama3-70b", "dgx-a100-80", seq=4096, batch=8, devices=8)
    analysis = analyse(request, ("nccl",))
    assert not analysis.estimates.fits.any()
    miss = analysis.nearest_miss()
    assert miss is not None
    memory = miss.estimate["memory_bytes"]
    assert memory["params"] + memory["grads"] + memory["optimizer"] == pytest.approx(141.1e9, rel=0.01)


def test_32b_state_is_fully_sharded_over_16_devices():
    """simplescaling/s1#25: a user believed FSDP copies the model; 16 x 32.76e9 / 16 is 32.8 GB of state a device."""
    request = _request("qwen2.5-32b", "dgx-h100x2", seq=4096, batch=16)
    memory = price(request, Strategy(mesh=Mesh(fsdp=16), loss_chunk_tokens=4096)).estimate["memory_bytes"]
    assert memory["params"] + memory["grads"] + memory["optimizer"] == pytest.approx(32.8e9, rel=0.01)


def test_memory_is_constant_where_tokens_a_device_are():
    """pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md, Llama 3.1 8B on 8 devices: 32k at cp 1 "
    "to 256k at cp 8, fsdp x cp = 8: the same peak in all four rows."""
    totals = []
    for context in (1, 2, 4, 8):
        request = _request("llama3.1-8b", "dgx-h100", seq=32768 * context, batch=8 // context)
        strategy = Strategy(mesh=Mesh(fsdp=8 // context, context=context), loss_chunk_tokens=2048)
        totals.append(price(request, strategy).estimate["memory_bytes"]["total"])
    assert max(totals) / min(totals) < 1.05


def test_no_strategy_of_the_space_makes_whole_logits():
    """NVIDIA-NeMo/Automodel#3907, every loss that is not fused makes whole logits: whole fp32 logits of "
    "Llama 3 8B at 256k would be 125 GiB over all devices of a sequence."""
    analysis = analyse(_request("llama3-8b", "gb200-nvl72", seq=262144, batch=16), ("nccl",))
    assert (analysis.table.loss_chunk_tokens <= 4096).all()
    assert isinstance(analysis.table, StrategyTable)
