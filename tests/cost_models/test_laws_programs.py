"""Laws told of another trainer's layout."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.attention.unfused import unfused_seconds
from cost_models.collectives.call_cost import broadcast_cost
from cost_models.collectives.group_span import Span
from cost_models.collectives.overlap import behind_backward_seconds
from cost_models.collectives.step import terms_of
from cost_models.compute.flops import recomputed_matrix_parameters
from cost_models.compute.host_time import host_wait_seconds
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS, Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.state_place import optimizer_shards
from cost_models.inputs.table import StrategyTable
from cost_models.memory.pytorch import TorchMemory
from cost_models.rates.published import CollectiveRate, rates_for, rates_of
from cost_models.time.step import StepTime
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


def setting_of(program, *, machine="dgx-h100x2", seq_len=8192, batch=16):
    spec = hardware(machine)
    work = Workload(seq_len=seq_len, global_batch=batch)
    return Setting(model("llama3-8b"), spec, work, spec.usable_bytes, program)


def layout_of(program, *, mesh, remat="full", **where):
    strategy = Strategy(mesh=mesh, remat=remat, scheme="ring-zigzag")
    return Layout(setting_of(program, **where), StrategyTable.from_strategies([strategy]))


def times_of(program, **where):
    layout = layout_of(program, **where)
    return StepTime(layout, rates_for(layout.setting))


def test_pytorch_repeats_the_down_projection_too_where_nothing_is_kept():
    needed = recomputed_matrix_parameters(layout_of(Program(), mesh=Mesh(fsdp=16)))[0]
    whole = recomputed_matrix_parameters(layout_of(PROGRAMS["torch-fsdp"], mesh=Mesh(fsdp=16)))[0]
    assert whole - needed == 4096 * 14336
    assert whole == model("llama3-8b").layer_matrix_parameters
    kept = layout_of(PROGRAMS["torch-fsdp"], mesh=Mesh(fsdp=16), remat="save-qkv")
    assert recomputed_matrix_parameters(kept)[0] == 4096 * 4096 + 2 * 4096 * 14336


def test_what_is_kept_can_be_listed():
    layout = layout_of(Program(saved=("query", "up")), mesh=Mesh(fsdp=16))
    expected = 4096 * (8 * 128 * 2 + 32 * 128 + 14336)  # key, value, output projection, gate
    assert recomputed_matrix_parameters(layout)[0] == expected


def test_megatron_shards_no_weights_over_context_but_reduces_their_gradients_over_it():
    layout = layout_of(PROGRAMS["megatron"], mesh=Mesh(data=4, context=4))
    purposes = {term.purpose: term for term in terms_of(layout) if term.calls[0] > 0}
    assert "weights" not in purposes
    assert purposes["gradients"].axes == ("data", "context")
    assert layout.state_shards[0] == 1.0


def test_a_distributed_optimizer_scatters_gradients_and_gathers_weights():
    layout = layout_of(PROGRAMS["megatron"], mesh=Mesh(data=16))
    ops = {term.op: float(term.bytes[0]) for term in terms_of(layout) if term.purpose == "gradients" and term.calls[0] > 0}
    assert set(ops) == {"reduce-scatter", "all-gather"}
    assert ops["reduce-scatter"] == 2 * ops["all-gather"]  # fp32 gradients, bf16 weights
    assert optimizer_shards(layout)[0] == 16.0


def test_gradients_hide_behind_all_of_the_backward_pass_but_the_last_layer():
    reduction, backward = np.array([1.0, 1.0, 8.0]), np.array([4.0, 0.5, 4.0])
    exposed = behind_backward_seconds(reduction, backward, buckets=4.0)
    assert exposed == pytest.approx([0.25, 1.0 - 0.5 * 0.75, 8.0 - 3.0])


def test_an_eager_host_is_a_floor_under_small_layers():
    assert host_wait_seconds(np.array([1e-3, 5e-3]), 1.0, forward_host_s=1e-3) == pytest.approx([3e-3, 0.0])
    small = {"mesh": Mesh(fsdp=16), "seq_len": 128}
    graphs = PROGRAMS["torch-fsdp"].model_copy(update={"dispatch": "graphs"})
    assert times_of(PROGRAMS["torch-fsdp"], **small).overhead[0] > 10 * times_of(graphs, **small).overhead[0]
    large = {"mesh": Mesh(fsdp=16), "seq_len": 32768}
    assert times_of(PROGRAMS["torch-fsdp"], **large).overhead[0] == times_of(PROGRAMS["torch-compile"], **large).overhead[0]


def test_unfused_attention_counts_every_score_and_its_way_through_memory():
    # 1e9 scores of 100 features: 2 x 2e11 FLOP at 4e14 a second and 13 bytes a score at 1.3e12 a second
    assert unfused_seconds(np.array(1e9), 100.0, which="forward", flop_per_s=4e14, hbm_bytes_per_s=1.3e12) == pytest.approx(
        0.011
    )
    again = unfused_seconds(np.array(1e9), 100.0, which="again", flop_per_s=4e14, hbm_bytes_per_s=1.3e12)
    assert again < 0.011


def test_recomputing_scores_lengthens_the_backward_pass_alone():
    kept, again = (PROGRAMS["megatron-2022"].model_copy(update={"recompute_scores": flag}) for flag in (False, True))
    where = {"mesh": Mesh(tensor=8), "machine": "dgx-a100-80", "remat": "save-all", "seq_len": 2048, "batch": 4}
    assert times_of(kept, **where).layer_forward[0] == times_of(again, **where).layer_forward[0]
    assert times_of(kept, **where).layer_backward[0] < times_of(again, **where).layer_backward[0]


def test_older_kernels_are_slower_where_they_were_measured():
    new, old = (rates_for(setting_of(PROGRAMS[name])) for name in ("flash", "torch-fsdp"))
    assert old.attention_forward.value < new.attention_forward.value
    assert old.gemm == new.gemm
    a100 = setting_of(PROGRAMS["torch-fsdp"], machine="dgx-a100-80")
    assert rates_for(a100).attention_forward.value == rates_of(a100.hardware).attention_forward.value


def test_async_tensor_parallelism_hides_the_stream_behind_its_products():
    beside = PROGRAMS["torch-compile"].model_copy(update={"stream": "beside-products"})
    where = {"mesh": Mesh(fsdp=2, tensor=8)}
    exposed, hidden = (times_of(p, **where).comm_tensor[0] for p in (PROGRAMS["torch-compile"], beside))
    assert exposed / 9 < hidden < exposed / 2


def test_user_buffers_hide_the_stream_of_the_rows_that_ask_for_them_and_take_ten_streams():
    where = {"mesh": Mesh(fsdp=2, tensor=8)}
    exposed = times_of(PROGRAMS["megatron"], **where)
    strategies = [
        Strategy(mesh=Mesh(fsdp=2, tensor=8), scheme="ring-zigzag", collective_matmul=way) for way in ("off", "one-way")
    ]
    layout = Layout(setting_of(PROGRAMS["megatron"]), StrategyTable.from_strategies(strategies))
    both = StepTime(layout, rates_for(layout.setting))
    assert both.comm_tensor[0] == exposed.comm_tensor[0]
    assert both.comm_tensor[1] < exposed.comm_tensor[0] / 2
    assert not [term for term in terms_of(layout) if term.purpose == "stream-ring" and np.any(term.calls)]
    off, on = TorchMemory(layout).parts()[1]
    assert on - off == 10 * 2 * layout.tokens[0] * 4096


def test_the_default_program_is_the_step_of_the_agreement():
    setting = setting_of(Program())
    assert setting == replace(setting, program=PROGRAMS["lcplan"])


def test_sums_of_gradients_in_products_take_no_time_of_their_own():
    where = {"mesh": Mesh(data=8), "batch": 64, "machine": "dgx-h100"}
    strategy = Strategy(mesh=Mesh(data=8), microbatches=8)
    times = []
    for name in ("megatron", "nemo"):
        setting = setting_of(PROGRAMS[name], machine=where["machine"], batch=where["batch"])
        layout = Layout(setting, StrategyTable.from_strategies([strategy]))
        times.append(StepTime(layout, rates_for(setting)))
    sums = 8 * 12.0 * times[0].layout.setting.model.parameters / times[0].rates.hbm.value
    assert float(times[0].optimizer[0] - times[1].optimizer[0]) == pytest.approx(sums)


def test_fsdp_casts_and_divides_the_gradient_of_each_layer_in_memory():
    where = {"mesh": Mesh(fsdp=16), "remat": "save-all"}
    whole = times_of(PROGRAMS["torch-fsdp"], **where)
    halves = times_of(PROGRAMS["torch-fsdp"].model_copy(update={"pure_bf16": True}), **where)
    elements = 32 * model("llama3-8b").layer_matrix_parameters
    assert whole.hbm[0] - halves.hbm[0] == pytest.approx(10 * elements / whole.rates.hbm.value)
    replicas = {"mesh": Mesh(data=16), "remat": "save-all"}
    assert times_of(PROGRAMS["torch-fsdp"], **replicas).hbm[0] == times_of(PROGRAMS["flash"], **replicas).hbm[0]


def test_every_rank_that_owns_tensors_broadcasts_them_after_the_update():
    def terms(program, **mesh):
        found = terms_of(layout_of(program, mesh=Mesh(**mesh), batch=1024, machine="dgx-h100x128"))
        return {(t.purpose, t.op): (float(t.bytes[0]), float(t.calls[0])) for t in found if t.calls[0] > 0}

    gathered, turns = (terms(PROGRAMS[name], data=16) for name in ("megatron", "internevo"))
    assert turns["gradients", "all-reduce"][0] == gathered["gradients", "reduce-scatter"][0] / 2  # bf16, and whole
    assert turns["updates", "broadcast"] == (gathered["gradients", "all-gather"][0] / 16, 16)
    found = terms_of(layout_of(PROGRAMS["internevo"], mesh=Mesh(data=1024), batch=1024, machine="dgx-h100x128"))
    owners = [float(term.calls[0]) for term in found if term.purpose == "updates"]
    assert owners == [5 * 32 + 2, 4 * 32]  # fewer tensors than ranks
    group = PROGRAMS["internevo"].model_copy(update={"optimizer_group": 8})
    assert terms(group, data=16)["updates", "broadcast"][1] == 8
    work = times_of(PROGRAMS["internevo"], mesh=Mesh(data=16))
    assert work.comm_data[0] > work.gradients[0] + work._of("updates")[0] > work._of("updates")[0] > 0


def test_a_broadcast_passes_every_member_before_the_last_one_has_its_first_chunk():
    rate = CollectiveRate(1e-5, 1e-6, 1e11, measured=True, source="test")
    network = hardware("dgx-h100x128").network_link
    one, two = np.array([8.0]), np.array([16.0])

    def cost(members, crosses):
        return broadcast_cost(Span(members, np.ones(1), one, crosses, on_rail=np.array([True])), rate, network=network)

    inside, across = cost(one, np.ones(1)), cost(two, np.array([2.0]))
    large = 1e9
    chunk = 2.0**19
    assert inside.seconds(np.array([large]))[0] == pytest.approx(large / 1e11 + 7 * (3.4e-6 + 24 * chunk / 1e11))
    assert inside.seconds(np.array([24.0]))[0] == pytest.approx(7 * 3.4e-6, rel=1e-3)  # a small message has small chunks
    bandwidth = 8 * network.oneway_bytes_per_s.value
    hops = 14 * (3.4e-6 + 8 * chunk / 1e11) + 14e-6 + 8 * chunk / bandwidth
    assert across.seconds(np.array([large]))[0] == pytest.approx(large / min(1e11, bandwidth) + hops)


def test_fp32_norms_move_more_of_the_stream_and_the_metrics_read_the_logits_again():
    where = {"mesh": Mesh(data=16), "remat": "save-all"}
    fused, copies, eager = (
        times_of(PROGRAMS["torch-fsdp"].model_copy(update={"elementwise": kind}), **where).hbm[0]
        for kind in ("fused", "fp32-norms", "eager")
    )
    assert 1.3 * fused < copies < 2.0 * fused < eager
    traffic = PROGRAMS["torch-fsdp"].model_copy(update={"logit_traffic": 60.0})
    assert times_of(traffic, **where).loss[0] > times_of(PROGRAMS["torch-fsdp"], **where).loss[0]


def test_few_large_buckets_leave_a_larger_last_one():
    bucketed = PROGRAMS["internevo"]
    layers = bucketed.model_copy(update={"gradient_bucket": None})
    where = {"mesh": Mesh(data=16)}
    assert times_of(bucketed, **where).gradients[0] > times_of(layers, **where).gradients[0]
