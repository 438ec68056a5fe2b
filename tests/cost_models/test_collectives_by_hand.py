"""Collectives and collective matmuls of the small step, by hand; see ``hand_cases`` for its sizes."""

from dataclasses import replace

import numpy as np
import pytest
from hand_cases import HAND, LINK, MIXTURE, RATES, layout, rate, times

from cost_models.collectives.collective_matmul import RingMatmul
from cost_models.collectives.contention import hidden_contention_seconds, multiprocessor_share, transit_bytes
from cost_models.collectives.group_span import span_of
from cost_models.collectives.listed_collectives import listed_seconds
from cost_models.collectives.network import call_cost, moved_share
from cost_models.collectives.step import terms_of
from cost_models.parts.part import keys
from cost_models.parts.time import STEP_TIME
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.spec.figure import Figure
from lcplan.strategy import Mesh, Strategy

FLOOR_S = 3e-6


def near(value):
    return pytest.approx([value], rel=1e-9)


def terms(**fields):
    found = {}
    for term in terms_of(layout(**fields)):
        if term.calls[0] > 0:
            found.setdefault((term.purpose, term.op), []).append((float(term.bytes[0]), float(term.calls[0])))
    return found


def test_a_step_over_data_and_tensor():
    found = terms(data=2, tensor=2, loss_chunk_tokens=64)
    assert found["vectors", "all-reduce"] == [(4 * 40, 1)]
    assert found["scalars", "all-reduce"] == [(4, 2)]
    # 128 tokens a rank: 2 chunks of 64 tokens
    assert found["loss", "all-gather"] == found["loss", "reduce-scatter"] == [(2 * 64 * 8, 2)]
    assert found["loss-maximum", "all-reduce"] == [(4 * 64, 2)]
    assert found["loss-sums", "all-reduce"] == [(8 * 64, 2)]
    assert found["gradients", "all-reduce"] == [(4 * 2048 / 2, 1)]


def test_the_stream_of_each_program():
    # 256 tokens of 16 bytes: 6 gathers and 5 scatters a layer, and the embedding's
    assert terms(tensor=2)["stream", "all-gather"] == [(4096, 13)]
    assert terms(tensor=2)["stream", "reduce-scatter"] == [(4096, 11)]
    assert terms(tensor=2, remat="save-all")["stream", "reduce-scatter"] == [(4096, 9)]
    # a whole stream is not gathered again for products that are kept
    whole = {"program": {"sequence_parallel": False}}
    assert terms(tensor=2, **whole)["stream", "all-gather"] == [(4096, 13)]
    assert terms(tensor=2, remat="save-all", **whole)["stream", "all-gather"] == [(4096, 9)]


def test_weights_of_each_program():
    assert terms(fsdp=2)["weights", "all-gather"] == [(2 * 768, 4)]
    assert terms(fsdp=2, program={"weights_gathered": "once"})["weights", "all-gather"] == [(2 * 768, 2)]


def test_keys_and_values_of_each_scheme():
    # gathered: 2 x 2 x 256 x 8 bytes twice a layer, fp32 gradients once
    gathered = terms(context=2, scheme="all-gather")
    assert gathered["kv-gather", "all-gather"] == [(8192, 4)]
    assert gathered["kv-gradients", "reduce-scatter"] == [(16384, 2)]
    # a ring of four, 64 tokens a rank: 3 hops and 3 again and 2 more; gradients in fp32 but for the hop home
    ring = terms(context=4, scheme="ring")
    assert ring["kv-ring", "collective-permute"] == [(2048, 8 * 2)]
    assert ring["kv-gradients", "collective-permute"] == [(4096, 3 * 2), (2048, 2)]


def test_both_directions_carry_half_of_the_heads_each():
    two = HAND.model_copy(update={"kv_heads": 2})
    ring = terms(spec=two, context=4, scheme="ring", bidirectional="on")
    assert ring["kv-ring", "collective-permute"] == [(2048, 2 * 8 * 2)]
    found = times(spec=two, context=4, scheme="ring", bidirectional="on")
    assert found.overhead == near(FLOOR_S * 2 * 2 * 4 * 3)


def matmul(hop_s=0.0, *, machine="dgx-h100x2", rates=None, **fields):
    found = RATES if rates is None else RATES.__class__(**{**vars(RATES), **rates})
    return RingMatmul(layout(machine=machine, **fields), found, np.array([hop_s]))


def test_elements_of_each_product():
    found = matmul(tensor=2, collective_matmul="one-way")
    assert found.attention_elements == near(8 * (8 + 2 * 8))  # one key/value head, whole on both
    assert (found.up_elements, found.out_elements, found.down_elements) == (near(128), near(64), near(64))


def test_a_collective_matmul_pays_for_hops_sums_and_launches():
    # tensor 4: a piece has 64 rows. 100 elements: 2 x 64 x 100 FLOP, 12.8 ms; three hops of 20 ms leave 7.2 ms each
    found = matmul(0.02, tensor=4, collective_matmul="one-way")
    elements = np.array([100.0])
    assert found.extra_seconds(elements, sums=False) == near(3 * 0.0072 + 3 * FLOOR_S)
    # a sum passes three times over a piece of 64 x 8 x 2 bytes at each of three hops
    assert found.extra_seconds(elements, sums=True) == near(3 * 0.0072 + 3 * 3 * 1024 / 1e6 + 3 * FLOOR_S)
    # slow memory: four pieces read 200 bytes each where the whole product reads them once
    slow = matmul(0.0, tensor=4, collective_matmul="one-way", rates={"hbm": rate(1e2)})
    assert slow.extra_seconds(elements, sums=False) == near(3 * 2.0 + 3 * FLOOR_S)


def test_two_ways_need_half_of_the_rounds():
    elements = np.array([100.0])
    # a torus: two rounds, the second beside two pieces, which hide a hop of 20 ms
    torus = matmul(0.02, machine="tpu-v5p-64", tensor=4, collective_matmul="two-way")
    assert torus.extra_seconds(elements, sums=False) == near(0.0072)
    longer = matmul(0.05, machine="tpu-v5p-64", tensor=4, collective_matmul="two-way")
    assert longer.extra_seconds(elements, sums=False) == near(0.05 - 0.0128 + 0.05 - 0.0256)
    pair = matmul(0.1, machine="tpu-v5p-64", tensor=2, collective_matmul="two-way")
    assert pair.extra_seconds(elements, sums=False) == near(0.1 - 0.0256)
    # three ranks on a GPU: one round, and one hop of the other way
    three = matmul(0.02, tensor=3, collective_matmul="two-way")
    assert three.extra_seconds(elements, sums=False) == near(0.02 - 2 * 256 / 3 * 100 / 1e6 + 0.02 + 2 * FLOOR_S)
    # one permute at a time: one hop of the other way is exposed
    gpu = matmul(0.02, tensor=4, collective_matmul="two-way")
    assert gpu.extra_seconds(elements, sums=False) == near(0.0072 + 0.02 + 3 * FLOOR_S)


def test_passes_of_a_layer():
    # no hops and fast products: launches, sums, copies into order, and weights' gradients summed over pieces
    fields = {"tensor": 2, "collective_matmul": "one-way", "rates": {"gemm": rate(1e15)}}
    found = matmul(0.0, **fields)
    # 4 products of a hop each; sums of two: three passes over a piece of 128 x 8 x 2 bytes; order: 2 x 2 bytes x 256 tokens x
    # (2 x 8 + 2 x 8) features; 2 bytes an element are read once more by the second piece
    order, sums = 2 * 2 * 256 * 32, 3 * 2048
    forward = 4 * FLOOR_S + (2 * sums + order + 2 * (192 + 128 + 64 + 64)) / 1e6
    assert found.forward == near(forward)
    # backward as many, and fp32 gradients of 448 elements read and written once
    assert found.backward == near(forward + 2 * 4 * 448 / 1e6)


def test_what_the_backward_pass_repeats():
    fields = {"tensor": 2, "collective_matmul": "one-way", "rates": {"gemm": rate(1e15)}}
    # full: rows of attention and of the feed-forward, the output's sum; a hop of the cotangent's waits
    full = matmul(0.001, remat="full", **fields)
    # the second piece's read of the weights takes as long as the first piece hides of the hop
    waits = 3 * 0.001 + 0.001
    assert full.again == near(waits + 3 * FLOOR_S + 3 * 2048 / 1e6)
    # save-all: rows travel all the same, with nothing to hide them
    kept = matmul(0.001, remat="save-all", **fields)
    assert kept.again == near(2 * 0.001 + 2 * FLOOR_S)


def test_shares_of_multiprocessors_are_at_most_one():
    assert multiprocessor_share(layout()) == pytest.approx(32 / 132)
    spec = layout().setting.hardware
    small = spec.device.gpu.model_copy(update={"core_count": 16})
    few = spec.model_copy(update={"device": spec.device.model_copy(update={"gpu": small})})
    tiny = layout()
    tiny = type(tiny)(type(tiny.setting)(**{**vars(tiny.setting), "hardware": few}), tiny.table)
    assert multiprocessor_share(tiny) == 1.0
    assert hidden_contention_seconds(tiny, np.array([2.0])) == near(2.0)


def test_bytes_that_cross_a_torus_devices_memory():
    assert [float(transit_bytes(op, np.array(1.0))) for op in ("all-gather", "reduce-scatter", "all-reduce")] == [2.0, 3.0, 0.0]


def test_the_parts_of_time_are_the_properties():
    found = times(data=2, fsdp=2, context=2, tensor=2)
    assert {name: float(column[0]) for name, column in found.parts().items()} == {
        name: float(getattr(found, name)[0]) for name in keys(STEP_TIME)
    }
    assert LINK == 1e3


def test_contention_beside_a_tensor_axis_counts_every_pass():
    # k of attention, in the forward, repeated and backward pass; hops of both directions' permutes beside later steps
    full, kept = (
        times(context=2, tensor=2, scheme="ring", backend="nccl", remat=remat, rates={"gemm": rate(1e-3)})
        for remat in ("full", "save-all")
    )
    share = full.layout.setting.constants.nccl_ring_contention
    for found, passes in ((full, 2), (kept, 1)):
        forward, backward = found.forward_attention, found.backward_attention
        lost = 2 * share * (passes * forward.total_s + backward.total_s)
        hops = sum(
            found._steps(term) * np.minimum(seconds, forward.later_s) * 32 / 132
            for term, seconds in found.terms_with_seconds
            if term.purpose in {"kv-ring", "kv-gradients"}
        )
        hidden = hidden_contention_seconds(found.layout, found._hidden)
        assert found.contention == pytest.approx(lost + hops + hidden)


def test_products_that_are_repeated_hide_the_stream_too():
    beside = {"program": {"stream": "beside-products"}, "tensor": 2, "loss_chunk_tokens": 256}
    found = times(**beside, remat="full")
    forward, _ = found._stream_calls
    # products of 768 elements and of the 640 that are repeated, half of the columns
    assert found.stream_forward == near(float(forward[0]) - 2 * 256 * (768 + 640) / 1e6)
    assert times(**{**beside, "tensor": 1}).stream_forward == near(0)


def test_a_tpu_sums_embeddings_over_microbatches_before_it_reduces():
    # of two tables' reductions of two microbatches each, the embedding's is one
    assert terms(machine="tpu-v5p-64", fsdp=2, microbatches=2)["tables", "reduce-scatter"] == [(4 * 256, 3)]
    assert terms(fsdp=2, microbatches=2)["tables", "reduce-scatter"] == [(4 * 256, 4)]


def test_no_collectives_take_no_time():
    assert listed_seconds(layout(data=2).setting, Strategy(mesh=Mesh(data=2)), ()) == 0.0


def cost(op, *, machine="dgx-h100x2", axes=("fsdp",), **fields):
    """Seconds per byte of one collective where links inside a domain cost nothing."""
    found = layout(machine=machine, **fields)
    fast = {name: replace(one, oneway_bytes_per_s=1e30) for name, one in RATES.collectives.items()}
    rates = replace(RATES, collectives=fast)
    return call_cost(op, span_of(found, axes), hardware=found.setting.hardware, rates=rates), found.setting.hardware


def test_groups_over_two_nodes_leave_each_by_its_members_ports():
    # 16 devices, 8 a node. All-gather: 15/16 of the operand over 8 ports; all-to-all: half of 15/16 over the sender's own port;
    # a permute: the message over its own
    for op, share in (("all-gather", 15 / 16 / 8), ("all-to-all", 15 / 16 / 2), ("all-reduce", 2 * 15 / 16 / 8)):
        found, machine = cost(op, fsdp=16)
        assert found.seconds_per_byte == near(share / machine.network_link.oneway_bytes_per_s.value)
        assert found.latency_s == near(machine.network_link.latency_s.value)
    found, machine = cost("collective-permute", fsdp=16)
    port = machine.network_link.port_oneway_bytes_per_s
    ports = 1.0 if port is None else port.value / machine.network_link.oneway_bytes_per_s.value
    assert found.seconds_per_byte == near(1 / machine.network_link.oneway_bytes_per_s.value / ports)


def blocking(op, *, ratio=2.0, axes=("fsdp",), **fields):
    """Ratio of a call's time on a network that is oversubscribed to that on one that is not."""
    found = layout(machine="dgx-h100x2", **fields)
    spec = found.setting.hardware
    figure = Figure(value=ratio, source="test", kind="user")
    slow = spec.model_copy(update={"network_link": spec.network_link.model_copy(update={"oversubscription_ratio": figure})})
    fast = {name: replace(one, oneway_bytes_per_s=1e30) for name, one in RATES.collectives.items()}
    costs = [call_cost(op, span_of(found, axes), hardware=one, rates=replace(RATES, collectives=fast)) for one in (slow, spec)]
    return float((costs[0].seconds_per_byte / costs[1].seconds_per_byte)[0])


def test_an_oversubscribed_network_slows_what_leaves_its_rail():
    assert blocking("all-gather", fsdp=16) == 1.0  # rings over the same place of each node
    assert blocking("all-gather", fsdp=2, tensor=8) == 1.0
    assert blocking("all-to-all", fsdp=16) == 2.0
    assert blocking("all-to-all", fsdp=2, tensor=8) == 1.0  # one device of each node
    assert blocking("collective-permute", fsdp=16) == 2.0  # from the last device of a node to the first of the next


def bus_bytes_per_s(op, members, *, machine):
    """The rate at which one device sends, of its own rates."""
    found = layout(machine=machine, fsdp=members)
    spec = found.setting.hardware
    per_byte = call_cost(op, span_of(found, ("fsdp",)), hardware=spec, rates=rates_of(spec)).seconds_per_byte
    return float((moved_share(op, np.array([float(members)])) / per_byte)[0])


def test_a_group_of_a_node_without_a_switch_uses_its_own_pairs_links():
    # Measured on MI300X: all-reduces of 4 GB, 312.9 GB/s over 8 and 47.7 over 2 (stas00/ml-engineering, network/README.md)
    assert bus_bytes_per_s("all-reduce", 8, machine="mi300x") == pytest.approx(312.9e9)
    assert bus_bytes_per_s("all-reduce", 2, machine="mi300x") == pytest.approx(312.9e9 / 7)
    assert bus_bytes_per_s("all-reduce", 2, machine="mi300x") == pytest.approx(47.7e9, rel=0.07)
    # a permute goes to one other device: 48 of a link's 64 GB/s, however many there are
    assert bus_bytes_per_s("collective-permute", 8, machine="mi300x") == pytest.approx(48e9)
    assert bus_bytes_per_s("collective-permute", 2, machine="mi300x") == pytest.approx(48e9)
    # NVSwitch gives two devices the links of all
    two, eight = (bus_bytes_per_s("all-reduce", n, machine="dgx-h100") for n in (2, 8))
    assert two == pytest.approx(eight)


def test_levels_between_nodes_against_published_figures():
    # An all-to-all reaches the bandwidth of one port, 48 to 49 GB/s of a ConnectX-7 (NVIDIA/nccl-tests issue 267, maintainers)
    assert bus_bytes_per_s("all-to-all", 1024, machine="dgx-h100x128") == pytest.approx(48.5e9, rel=0.05)
    # All-gather of 2 GiB over 256 H100 in 32 nodes: 200 GB/s (NVIDIA/nccl issue 1218, whose author expected more)
    found = layout(machine="dgx-h100x32", fsdp=256)
    spec = found.setting.hardware
    cost = call_cost("all-gather", span_of(found, ("fsdp",)), hardware=spec, rates=rates_of(spec))
    rate = 255 / 256 * 2**31 / float(cost.seconds(np.array([2.0**31]))[0])
    assert rate == pytest.approx(200e9, rel=0.3)


def all_reduce_s(machine, members, size_bytes):
    found = layout(machine=machine, fsdp=members)
    spec = found.setting.hardware
    cost = call_cost("all-reduce", span_of(found, ("fsdp",)), hardware=spec, rates=rates_of(spec))
    return float(cost.seconds(np.array([float(size_bytes)]))[0])


@pytest.mark.parametrize(
    ("machine", "members", "bus_gb_per_s"),
    [("dgx-h200", 8, 473.1), ("dgx-h200", 7, 460.0), ("dgx-h200", 6, 435.6), ("dgx-h200", 5, 414.2), ("dgx-b200", 8, 838.0)],
)
def test_switches_that_sum_reach_the_published_bus_bandwidths(machine, members, bus_gb_per_s):
    # stas00/ml-engineering, network/README.md, SHARP: 8 GiB. A ring reaches 365 GB/s on H200 and 680 on B200.
    sent = 2 * (members - 1) / members * 2**33
    assert sent / all_reduce_s(machine, members, 2**33) == pytest.approx(bus_gb_per_s * 1e9, rel=0.02)


def test_a_small_all_reduce_a_pair_and_groups_of_several_nodes_go_by_rings():
    # 8 H100: 9.3 us a member and 9/8 of the operand at 305 GB/s, against 8.6 + 7 x 1.5 us and 14/8 at 328
    assert all_reduce_s("dgx-h100", 8, 2**30) == pytest.approx(8 * 9.3e-6 + 2**30 * 9 / 8 / 305e9)
    assert all_reduce_s("dgx-h100", 8, 2**20) == pytest.approx(19.1e-6 + 2**20 * 14 / 8 / 328e9)
    assert all_reduce_s("dgx-h100", 2, 2**30) == pytest.approx(10.1e-6 + 2**30 / 328e9)
    assert all_reduce_s("dgx-h100x2", 16, 2**30) > all_reduce_s("dgx-h100", 8, 2**30)
    for machine in ("dgx-a100-80", "mi300x", "hgx-h20", "pcie-l40s"):  # no switch that sums, or no figure of one
        assert rates_of(hardware(machine)).switch_all_reduce is None


def test_a_torus_permute_takes_one_link():
    found, machine = cost("collective-permute", machine="tpu-v5p-64", fsdp=32)
    assert found.seconds_per_byte == near(1 / machine.ici_link.oneway_bytes_per_s.value)


def test_only_the_attention_of_a_mixture_has_collective_matmuls():
    fields = {"tensor": 2, "collective_matmul": "one-way", "rates": {"gemm": rate(1e15)}}
    found = matmul(0.0, spec=MIXTURE, **fields)
    # query, key, value and out alone: two products of a hop each; one sum; attention's rows in order
    order, sums = 2 * 2 * 256 * 32, 3 * 2048
    forward = 2 * FLOOR_S + (sums + order + 2 * (192 + 64)) / 1e6
    assert found.forward == near(forward)
    assert found.backward == near(forward + 2 * 4 * (192 + 64) / 1e6)
    assert found.again == near(2 * FLOOR_S + (sums + 2 * (192 + 64)) / 1e6)
    # 256 rows of 8 features in bf16; attention gathers and scatters by hops: 3 + 2 + 1 again; the rest are whole
    moved = terms(spec=MIXTURE, tensor=2, collective_matmul="one-way")
    assert moved["stream-ring", "collective-permute"] == [(2048, 6 * 2)]
    assert moved["stream", "all-gather"] == [(4096, 3 * 2 + 1)]
    assert moved["stream", "reduce-scatter"] == [(4096, 2 * 2 + 1)]
