"""Laws of multi-head latent attention: widths, work and bytes by hand, and what must equal ordinary attention."""

import pytest

from cost_models.collectives.step import terms_of
from cost_models.compute.flops import attention_flop_per_sequence
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.saved_tensors import kept_bytes
from lcplan.catalog import hardware, model
from lcplan.formats.errors import BadInputError
from lcplan.spec.experts import LatentAttention
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

LATENT = LatentAttention(query_rank=6, kv_rank=4, nope_dim=8, rope_dim=4, value_dim=8)
SPEC = ModelSpec(name="latent", layers=2, d_model=16, d_ff=32, heads=4, kv_heads=4, head_dim=10, vocab=16, latent=LATENT)
DOWN = 16 * (6 + 4 + 4)
UP = 6 * 4 * 12 + 4 * 4 * (8 + 8)
OUT = 4 * 8 * 16


def layout(machine="gb200-nvl72", **fields):
    mesh = Mesh(**{axis: fields.pop(axis) for axis in ("data", "fsdp", "context", "tensor", "expert") if axis in fields})
    hw = hardware(machine)
    setting = Setting(SPEC, hw, Workload(seq_len=4096, global_batch=8), hw.usable_bytes)
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=mesh, **fields)]))


def found(op, purpose, **fields):
    terms = [term for term in terms_of(layout(**fields)) if (term.op, term.purpose) == (op, purpose) and term.used.any()]
    return [(term.bytes[0], term.calls[0]) for term in terms]


def test_parameters_by_hand():
    assert SPEC.attention_matrix_parameters == DOWN + UP + OUT
    assert SPEC.layer_vector_parameters == 2 * 16 + 6 + 4


def test_attention_work_is_that_of_12_features_of_keys_and_8_of_values():
    # scores 2 * 12 and values 2 * 8 FLOP a head, query and key; three times for the backward pass; two layers of four heads
    assert attention_flop_per_sequence(SPEC, 100.0, causal=False) == 3 * 2 * (12 + 8) * 2 * 4 * 100**2


def test_a_ring_moves_expanded_heads():
    # 4096 / 4 tokens of two sequences, four heads of 12 and 8 features, bf16
    assert found("collective-permute", "kv-ring", context=4, fsdp=4)[0][0] == 2 * 2048 * 4 * (12 + 8)


def test_what_compresses_is_gathered_whole_and_what_expands_by_heads():
    mlp = 3 * 16 * 32
    assert found("all-gather", "weights", fsdp=2, tensor=2)[0][0] == 2 * (UP + OUT + mlp) / 2
    assert found("all-gather", "latent-weights", fsdp=2, tensor=2)[0][0] == 2 * DOWN


def test_attention_gathers_compressed_rows_over_tensor():
    # per layer: feed-forward in, in again, and both cotangents are D wide; attention's rows, and again, 6 + 4 + 4
    tokens = 8 / 2 * 4096
    gathers = found("all-gather", "stream", fsdp=2, tensor=2)
    assert gathers == [(2 * tokens * 16, 4 * 2 + 1), (2 * tokens * 14, 2 * 2)]
    scatters = found("reduce-scatter", "stream", fsdp=2, tensor=2)
    assert scatters == [(2 * tokens * 16, 4 * 2 + 1), (2 * tokens * 14, 2)]


def test_what_remat_keeps_has_the_features_of_its_own():
    kept = kept_bytes(layout(fsdp=8, remat="save-all"))
    token = 2 * 4096 * 4
    assert [kept[name][0] for name in ("query", "key", "value", "attention_output")] == [token * dim for dim in (12, 12, 8, 8)]
    assert kept["lse"][0] == 4 * 4096 * 4


def test_the_kernel_is_cudnns_from_hopper_on():
    wanted = {"gb200-nvl72": "cudnn", "dgx-h100": "cudnn", "dgx-a100-80": "blockwise", "tpu-v5p-64": "blockwise"}
    work = Workload(seq_len=4096, global_batch=8)
    assert {name: Setting(model("deepseek-v3"), hardware(name), work, 1).kernel for name in wanted} == wanted


def test_queries_that_are_not_compressed_need_whole_rows():
    lite = LATENT.model_copy(update={"query_rank": None})
    assert lite.compressed(16) == 16 + 4 + 4
    assert lite.products(16, 4)["query"] == 16 * 4 * 12


def test_heads_that_do_not_go_with_the_latent_are_refused():
    with pytest.raises(BadInputError, match="kv_heads=2 and head_dim=128 of latent attention must be heads=4 and the mean"):
        ModelSpec.read({**SPEC.model_dump(mode="json"), "kv_heads": 2, "head_dim": 128}, "spec.yaml")


def test_deepseek_v3_does_not_fit_64_devices_with_its_state_alone():
    machine = hardware("gb200-nvl72")
    setting = Setting(model("deepseek-v3"), machine, Workload(seq_len=4096, global_batch=256), machine.usable_bytes)
    found = estimate(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=4, expert=16), microbatches=4)]))
    state = found.memory_bytes["params"][0] + found.memory_bytes["optimizer"][0]
    assert state == pytest.approx(12 * model("deepseek-v3").parameters / 64, rel=0.01)
    assert not found.fits[0]
    assert 0 < found.mfu_ratio[0] < 1
