"""Limit cases of the parts of time and memory: fast memory, hosts, tori, offload, experts, single layers."""

import pytest
from hand_cases import HAND, MIXTURE, RATES, layout, rate, times, unmeasured

from cost_models.collectives.step import axis_label, terms_of
from cost_models.masks.windows import Halo
from cost_models.memory.loss import Loss
from cost_models.memory.saved_tensors import offload_seconds
from cost_models.time import layer_pass, product_pass

FLOOR_S = 3e-6
FAST = {name: rate(1e30) for name in ("gemm", "hbm", "attention_forward", "attention_backward")}


def near(value):
    return pytest.approx([value], rel=1e-9)


def test_fast_memory_leaves_one_kernel():
    assert (times(rates=FAST).loss, times(rates=FAST).optimizer) == (near(FLOOR_S), near(FLOOR_S))


def test_a_hosts_work_hides_nothing_and_nothing_contends():
    found = times(machine="cpu-host", context=2, scheme="ring")
    assert found._overlaps == 0.0
    assert found.contention == near(0)
    # four hops of keys and values and four of gradients, 4.096 s each
    assert found.comm_context == near(8 * 4.096)


def test_a_torus_moves_both_directions_at_once():
    two = HAND.model_copy(update={"kv_heads": 2})
    for machine, unhidden in (("tpu-v5p-64", 0.0), ("dgx-h100x2", 1.0)):
        found = times(spec=two, machine=machine, context=2, scheme="ring", bidirectional="on")
        term, hop = next(pair for pair in found.terms_with_seconds if pair[0].purpose == "kv-ring")
        assert found._unhidden(term, hop) == pytest.approx(unhidden * term.calls / 2 * hop)


def test_a_gpu_waits_for_reads_and_for_writes_that_the_forward_pass_does_not_hide():
    found = times(remat="offload-layer-in", rates={"gemm": rate(1e12), "hbm": rate(1e12), **FAST})
    both, forward = float(offload_seconds(found.layout)[0]), float(found.layer_forward[0])
    exposed = max(both / 2 - forward, 0) + both / 2
    assert found.overhead == near(2 * 3 * FLOOR_S + 2 * exposed)


def test_weights_of_a_mixture_are_exposed_where_nothing_hides_them():
    # half of 2 x 384 bytes of attention, 2 x 1536 of experts, 2 x 32 of the router, twice a layer; fp32 scatters; tables
    found = times(spec=MIXTURE, fsdp=2, moe_dispatch="dropless", rates=FAST)
    gathers = 0.384 + 1.536 + 0.032
    assert found.comm_fsdp == pytest.approx([2 * (2 * gathers + 2 * gathers) + 2 * (0.256 + 0.512)], abs=1e-3)


def test_experts_weights_hide_whole_behind_what_attentions_leave():
    # a window of w seconds: a third of attention's is exposed whatever; its other 0.256 s leave w - 0.384 for the experts
    found = times(spec=MIXTURE, fsdp=2, moe_dispatch="dropless")
    forward = float((found.layer_forward_gemm + found.layer_forward_memory)[0])
    backward = float(found.layer_backward_gemm[0])
    gathered = 0.128 + max(0.032 - (forward - 0.384 - 1.536), 0)
    assert 1.92 < forward < 1.952 < backward
    left = max(backward - 0.768, 0)
    scattered = 0.256 + max(0.512 - backward, 0) + max(3.072 - left, 0) + max(0.064 - max(left - 3.072, 0), 0)
    assert found.comm_fsdp == near(2 * (2 * gathered + scattered) + 2 * (0.256 + 0.512))


def test_a_loss_of_two_chunks_on_a_tpu():
    # 32 words fill no tile of 128, so the cotangent is a buffer of its own
    assert Loss(layout(machine="tpu-v5p-64", loss_chunk_tokens=128)).logits == near((4 + 2) * 128 * 32 + 6 * 256)


def test_a_ring_of_three_sums_two_gradients():
    found = [term for term in terms_of(layout(context=3, scheme="ring")) if term.purpose == "kv-gradients" and term.calls[0]]
    assert [(float(term.bytes[0]), float(term.calls[0])) for term in found] == [
        (pytest.approx(4 * 2 * 256 / 3 * 8), 2 * 2),
        (pytest.approx(2 * 2 * 256 / 3 * 8), 2),
    ]


def test_two_tensor_ranks_have_collective_matmuls():
    found = {term.purpose: float(term.calls[0]) for term in terms_of(layout(tensor=2, collective_matmul="one-way"))}
    assert found["stream-ring"] == 11 * 2
    assert not layout(tensor=1, collective_matmul="one-way").ring_matmuls.any()


def test_a_layer_alone_is_its_work_and_its_stream(monkeypatch):
    monkeypatch.setattr(layer_pass, "rates_for", lambda setting: RATES)
    found = layout(tensor=2, remat="full")
    forward, backward = layer_pass.layer_pass_seconds(found.setting, found.table)
    whole = times(tensor=2, remat="full")
    # of 11 gathers and scatters of 2.048 s, four are forward and four are repeated
    assert forward == near(float(whole.layer_forward[0]) + 4 * 2.048)
    assert forward + backward == near(float((whole.layer_forward + whole.layer_backward)[0]) + 12 * 2.048)


def test_a_product_alone_on_one_rank_moves_nothing(monkeypatch):
    monkeypatch.setattr(product_pass, "rates_for", lambda setting: RATES)
    for tensor, moved in ((1, 0.0), (2, 2.048)):
        found = layout(tensor=tensor)
        alone = product_pass.product_pass_seconds(found.setting, found.table, feed_forward=False)
        both = product_pass.product_pass_seconds(found.setting, found.table, feed_forward=True)
        # 2 x 256 tokens x 256 elements in, 128 out, over the tensor ranks
        assert alone == near(2 * 256 * 256 / tensor / 1e6 + moved)
        assert both == near(2 * 256 * 384 / tensor / 1e6 + 2 * moved)


def test_an_unmeasured_device_has_no_matrix_unit_and_a_tpu_its_whole_link():
    assert unmeasured("gpu").matrix_unit == 0.0
    found = unmeasured("tpu").collectives["all-gather"]
    assert found.oneway_bytes_per_s == layout(machine="tpu-v5p-64").setting.hardware.domain_link.oneway_bytes_per_s.value


def test_an_optimizer_that_is_split_over_fewer_devices_reduces_whole_gradients():
    split = {"optimizer_over": "data", "optimizer_group": 2}
    for program, op in ((split, "all-reduce"), ({"optimizer_over": "data"}, "reduce-scatter")):
        found = [term for term in terms_of(layout(data=4, program=program)) if term.purpose == "gradients" and term.calls[0]]
        assert op in {term.op for term in found}
        assert ("reduce-scatter" in {term.op for term in found}) == (op == "reduce-scatter")


def test_only_cudnn_pads_the_queries_of_a_windowed_chunk():
    spec = HAND.model_copy(update={"sliding_window": 129, "head_dim": 4})
    halo = Halo(layout(spec=spec, context=4, scheme="ring", workload={"seq_len": 1024, "global_batch": 1}))
    assert halo.share == near(0.5)
    assert halo.padded == 1.0


def test_two_neighbours_of_four_are_a_group_of_their_own():
    found = layout(context=4, scheme="ulysses-ring", ulysses=2)
    labels = {term.subgroup: axis_label(found.table.strategy(0), term) for term in terms_of(found) if term.axes == ("context",)}
    assert labels["neighbours"] == "context/2"
    assert labels["groups"] == "context"


def test_a_sequence_of_256_tokens_is_two_halves_that_splash_takes():
    spec = HAND.model_copy(update={"heads": 1, "head_dim": 128})
    kernels = [layout(spec=spec, machine="tpu-v5p-64", workload={"seq_len": length}).setting.kernel for length in (128, 256)]
    assert kernels == ["blockwise", "splash"]
