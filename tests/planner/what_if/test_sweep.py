"""Sweeps: each point is what a search would put first; values are read, applied and refused by name."""

import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.formats.units import GIB
from planner.what_if.question import what_if
from planner.what_if.vary import combinations, parse_vary
from planner.workloads.points import analyse

BACKENDS = ("nccl", "nvshmem")


def _sweep(request, *vary):
    return what_if(request, "sweep", backends=BACKENDS, varied=parse_vary(vary)).points


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("hbm=80GiB,141GiB", (80 * GIB, 141 * GIB)),
        ("seq=64k..1m", (65536, 131072, 262144, 524288, 2**20)),
        ("seq=64k..200k", (65536, 131072, 204800)),
        ("devices=1..8", (1, 2, 4, 8)),
        ("remat=full,none", ("full", "save-all")),
        ("remat=minimal", ("save-dots",)),
        ("bandwidth=25GB/s,2x", (25e9, -2.0)),
        ("tensor=1,2,2", (1, 2)),
        ("offload-percent=25..100", (25, 50, 100)),
    ],
)
def test_values(text, values):
    assert parse_vary((text,))[0].values == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hbn=80GiB", "--vary: unknown quantity 'hbn'; did you mean 'hbm'?"),
        (
            "offload=activations",
            "--vary offload: the host's memory is a remat policy's choice; vary remat=full,offload-layer-in",
        ),
        ("remat=full..none", "--vary remat=full..none: not a range; write low..high, or values with commas"),
        ("devices=8..4", "--vary devices=8..4: not a range; write low..high, or values with commas"),
        ("devices=0", "--vary devices=0: not a whole number above zero"),
        ("offload-percent=101", "--vary offload-percent=101: not a whole number above zero, at most 100"),
        ("dtype=fp8", "--vary dtype: unknown value 'fp8'; known: bf16, fp32"),
        ("bandwidth=0x", "--vary bandwidth=0x: not a factor above zero, for example 0.5x"),
        ("seq", "--vary 'seq': write quantity=values, for example seq=64k..1m or hbm=80GiB,141GiB"),
    ],
)
def test_bad_values_say_what_is_wrong(text, message):
    with pytest.raises(BadInputError) as caught:
        parse_vary((text,))
    assert caught.value.problems == (message,)


def test_all_problems_at_once_and_no_flood():
    with pytest.raises(BadInputError) as caught:
        parse_vary(("hbn=1", "seq=x", "tensor=1", "tensor=2"))
    assert len(caught.value.problems) == 3
    many = ",".join(str(n) for n in range(1, 200))
    with pytest.raises(BadInputError, match="39,601 points are more than 10,000"):
        parse_vary((f"devices={many}", f"batch={many}"))


def test_the_last_quantity_varies_fastest():
    combos = combinations(parse_vary(("tensor=1,2", "seq=8k,16k")))
    assert [tuple(value for _, value in combo) for combo in combos] == [(1, 8192), (1, 16384), (2, 8192), (2, 16384)]


def test_a_point_is_what_a_search_puts_first(ask):
    """Shared spaces and masks change nothing: the fastest of a search of the point's own request, before ties are settled."""
    request = ask("llama3-8b", "dgx-h100", seq=65536, batch=8)
    for point in _sweep(request, "hbm=20GiB,40GiB,80GiB", "seq=16k,256k", "remat=full,none"):
        first = analyse(point.request, BACKENDS).fastest()
        if first is None:
            assert point.candidate is None or not point.candidate.best.fits
        else:
            assert point.candidate.strategy == first.strategy
            assert point.candidate.estimate == first.estimate


def test_devices_are_a_limit_and_more_never_slow_a_step(ask):
    points = _sweep(ask("llama3-8b", "dgx-h100", seq=65536, batch=8), "devices=1..8")
    assert [point.varied["devices"] for point in points] == [1, 2, 4, 8]
    used = [point.candidate for point in points if point.candidate is not None and point.candidate.best.fits]
    assert used
    assert all(candidate.strategy.devices <= 8 for candidate in used)
    steps = [candidate.best.step_s for candidate in used]
    assert steps == sorted(steps, reverse=True)


def test_more_memory_never_slows_a_step(ask):
    points = _sweep(ask("llama3-8b", "dgx-h100", seq=65536, batch=8), "hbm=24GiB..192GiB")
    steps = [point.candidate.best.step_s for point in points if point.candidate.best.fits]
    assert len(steps) > 1
    assert steps == sorted(steps, reverse=True)


def test_names_as_typed_and_with_units(ask):
    point = _sweep(ask("llama3-8b", "dgx-h100", batch=8), "hbm=80GiB", "seq=64k")[0]
    assert point.varied == {"hbm": 80 * GIB, "hbm_bytes": 80 * GIB, "seq": 65536, "seq_len": 65536}
    assert point.request.budget_bytes == int(80 * GIB * catalog.hardware("dgx-h100").allowance.usable_ratio.value)


@pytest.mark.parametrize(
    ("hw", "link"), [("dgx-h100", "domain_link"), ("dgx-h100x2", "network_link"), ("tpu-v5p-64", "ici_link")]
)
def test_bandwidth_is_that_of_the_slowest_level(ask, hw, link):
    request = ask("llama3-8b", hw, seq=65536, batch=8)
    spec = getattr(catalog.hardware(hw), link).oneway_bytes_per_s.value
    slow, own, fast = _sweep(request, "bandwidth=0.02x,1x,4x")
    assert [point.varied["bandwidth"] for point in (slow, own, fast)] == pytest.approx([0.02 * spec, spec, 4 * spec])
    assert slow.candidate.best.step_s > own.candidate.best.step_s >= fast.candidate.best.step_s


def test_a_default_batch_follows_the_length(ask):
    request = ask("llama3-8b", "dgx-h100", seq=65536, batch=64)
    request = request.model_copy(update={"workload": request.workload.model_copy(update={"global_batch_given": False})})
    batches = [point.request.workload.global_batch for point in _sweep(request, "seq=32k,1m")]
    assert batches == [128, 4]


def test_what_binds_is_memory_where_a_faster_strategy_does_not_fit(ask):
    small, large = _sweep(ask("llama3-8b", "dgx-h100", seq=131072, batch=8), "hbm=40GiB,1000GiB")
    assert (small.binds.kind, large.binds.kind) == ("memory", "time")
    assert large.binds.name == max(large.candidate.estimate["time_s"], key=large.candidate.estimate["time_s"].get)


def test_a_point_that_does_not_fit_is_an_answer(ask):
    result = what_if(
        ask("llama3.1-405b", "dgx-h100", batch=8), "sweep", backends=BACKENDS, varied=parse_vary(("seq=64k,128k",))
    )
    assert result.found
    assert [point["candidate"]["estimate"]["fits"] for point in result.to_json()["points"]] == [False, False]


def test_a_boundary_at_every_point(ask):
    result = what_if(
        ask("llama3-8b", "dgx-h100", batch=1), "max-seq", backends=BACKENDS, varied=parse_vary(("hbm=40GiB..160GiB",))
    )
    lengths = [point["seq_len"] for point in result.to_json()["points"]]
    assert len(lengths) == 3
    assert lengths == sorted(lengths)


def test_what_is_asked_for_cannot_vary(ask):
    with pytest.raises(BadInputError, match="max-seq finds seq_len; vary something else"):
        what_if(ask(), "max-seq", backends=BACKENDS, varied=parse_vary(("seq=8k,16k",)))
    with pytest.raises(BadInputError, match="sweep: over what"):
        what_if(ask(), "sweep", backends=BACKENDS)
