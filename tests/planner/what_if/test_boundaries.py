"""max-seq, max-batch and min-devices: the answer fits, one step further nothing does, and nothing ever falls."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.inputs.layout import Layout
from cost_models.memory.parts import StepMemory
from lcplan import catalog
from lcplan.formats.units import GIB
from lcplan.spec.workload import Workload
from planner.request.filters import Filters, parse_mesh
from planner.request.request import make_request
from planner.request.request_changes import Ask, length_unit
from planner.space.analysis import setting_of
from planner.what_if.boundary import boundary
from planner.what_if.feasible import fits_any
from planner.what_if.fewest_devices import fewest_devices
from planner.what_if.largest_batch import largest_batch
from planner.what_if.longest import longest_sequence
from planner.workloads.pricing import price

MODELS = ("llama3-8b", "llama3.2-1b", "qwen2.5-7b", "qwen3-14b", "qwen2.5-0.5b", "llama3.1-70b", "llama-tiny")
MACHINES = ("dgx-h100", "dgx-h100x2", "dgx-a100-40", "gb200-nvl72", "tpu-v5p-64", "tpu-v5e-16", "cpu-host")


def ask_of(model="llama3-8b", hw="dgx-h100", *, devices=None, seq=65536, batch=1, given=True, **more) -> Ask:
    hardware = catalog.hardware(hw)
    workload = Workload(seq_len=seq, global_batch=batch, global_batch_given=given)
    filters = {name: more.pop(name) for name in list(more) if name in Filters.model_fields and name != "mesh"}
    data = {
        "model": catalog.model(model),
        "hardware": hardware,
        "workload": workload,
        "budget_bytes": more.pop("budget", hardware.usable_bytes),
        "filters": Filters(mesh=parse_mesh(more.pop("mesh")) if "mesh" in more else {}, **filters),
    }
    backends = ("nccl", "nvshmem") if hardware.kind == "gpu" else hardware.backends
    return Ask(make_request(data | more), backends, devices or hardware.devices)


cases = st.tuples(st.sampled_from(MODELS), st.sampled_from(MACHINES), st.integers(1, 32), st.sampled_from([1, 2, 3, 8, None]))


def _case(drawn) -> Ask:
    model, hw, devices, batch = drawn
    limit = min(devices, catalog.hardware(hw).devices)
    return ask_of(model, hw, devices=limit, batch=batch or 1, given=batch is not None)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(cases)
def test_the_longest_sequence_fits_and_one_step_further_nothing_does(drawn):
    ask = _case(drawn)
    found = boundary(ask, "max-seq", explain=False)
    if found.value is None:
        smallest = ask.at(seq_len=128)
        assert not fits_any(ask.with_request(smallest))
        return
    strategy = found.candidate.strategy
    assert price(ask.at(seq_len=found.value), strategy).estimate["fits"]
    assert found.step % (128 * strategy.mesh.context) == 0
    assert found.value % length_unit(strategy.mesh.context, strategy.mesh.tensor) == 0
    further = ask.at(seq_len=found.value + found.step)
    assert not fits_any(ask.with_request(further))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(cases, st.integers(1, 24))
def test_the_longest_sequence_never_falls_with_more_memory(drawn, more):
    ask = _case(drawn)
    richer = ask.with_request(ask.request.model_copy(update={"budget_bytes": ask.request.budget_bytes + more * GIB}))
    assert (longest_sequence(richer) or 0) >= (longest_sequence(ask) or 0)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(cases, st.integers(1, 24))
def test_the_longest_sequence_never_falls_with_more_devices(drawn, more):
    ask = _case(drawn)
    if ask.request.hardware.kind == "cpu" and not ask.batch_given:
        return  # a host's default batch is one sequence a device, so the question itself changes
    limit = min(ask.most_devices + more, ask.request.hardware.devices)
    assert (longest_sequence(Ask(ask.request, ask.backends, limit)) or 0) >= (longest_sequence(ask) or 0)


def test_the_longest_sequence_is_the_longest_of_all_tiles():
    """Against every multiple of 128 x context of every mesh, by brute force on a small budget."""
    ask = ask_of("llama-tiny", "cpu-host", devices=4, batch=2, budget=100 * 2**20)
    found = longest_sequence(ask)
    assert found is not None
    by_force = max(
        length
        for context in (1, 2, 4)
        for length in range(128 * context, 2 * found, 128 * context)
        if fits_any(ask.with_request(_only_context(ask, context).at(seq_len=length)))
    )
    assert found == by_force


def _only_context(ask: Ask, context: int) -> Ask:
    filters = Filters(mesh=parse_mesh(f"context={context}"))
    return ask.with_request(ask.request.model_copy(update={"filters": filters}))


def test_without_a_batch_every_length_has_its_default():
    ask = ask_of(given=False)
    found = boundary(ask, "max-seq", explain=False)
    assert found.request.workload.global_batch == 4 * 2**20 // found.value
    assert not found.request.workload.global_batch_given


def test_a_window_does_not_end_the_search():
    windowed, plain = (boundary(ask_of(f"mistral-7b-v0.{n}", "dgx-h100"), "max-seq", explain=False) for n in (1, 3))
    assert windowed.value is not None
    assert plain.value is not None
    assert windowed.value > 2**19
    assert windowed.value == pytest.approx(plain.value, rel=0.1)  # windows save time, and memory hardly at all
    assert windowed.binds.kind == "memory"


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.sampled_from(MODELS), st.sampled_from(MACHINES), st.sampled_from([2048, 4096, 32768]))
def test_the_largest_batch_fits_and_one_step_further_nothing_does(model, hw, seq):
    ask = ask_of(model, hw, seq=seq, microbatches=(1,))
    found = boundary(ask, "max-batch", explain=False)
    if found.value is None:
        assert not fits_any(ask.with_request(ask.at(global_batch=1)))
        return
    assert price(ask.at(global_batch=found.value), found.candidate.strategy).estimate["fits"]
    assert found.step % (found.candidate.strategy.mesh.data * found.candidate.strategy.mesh.fsdp) == 0
    assert not fits_any(ask.with_request(ask.at(global_batch=found.value + found.step)))


def test_the_largest_batch_is_the_largest_by_force():
    ask = ask_of("llama3.2-1b", "dgx-a100-40", devices=4, seq=8192, microbatches=(1,))
    found = largest_batch(ask)
    batches = range(1, 2 * found)
    assert found == max(batch for batch in batches if fits_any(ask.with_request(ask.at(global_batch=batch))))


@pytest.mark.parametrize(("model", "hw", "seq"), [("llama3-8b", "dgx-h100", 65536), ("llama3.1-70b", "dgx-h100x8", 32768)])
def test_fewer_devices_than_the_fewest_never_fit(model, hw, seq):
    ask = ask_of(model, hw, seq=seq, batch=8)
    fewest = fewest_devices(ask)
    assert fits_any(Ask(ask.request, ask.backends, fewest))
    assert not fits_any(Ask(ask.request, ask.backends, fewest - 1))
    assert boundary(ask, "min-devices", explain=False).candidate.strategy.devices == fewest


def test_nothing_fits_says_what_is_closest_and_what_would_help():
    found = boundary(ask_of("llama3.1-70b", "dgx-h100", seq=32768, batch=8), "min-devices")
    assert found.value is None
    assert found.next.miss is not None
    assert found.binds.kind == "memory"
    assert any(moved.change.arguments[:2] == ("--hw", "dgx-h100x4") for moved in found.changes)


def test_the_first_suggestion_raises_the_answer():
    """The bar: Llama-3-8B on 8 x H100; what binds is named, the first change moves the boundary up."""
    ask = ask_of("llama3-8b", "dgx-h100", devices=8, batch=1)
    found = boundary(ask, "max-seq")
    assert found.binds.name in found.next.miss.estimate["memory_bytes"]
    first = found.changes[0]
    assert first.change.arguments[0].startswith("--")
    assert first.value > found.value
    assert longest_sequence(first.change.ask) == first.value
    assert all(moved.value > found.value for moved in found.changes)


def test_memory_grows_with_the_length_at_a_fixed_loss_chunk():
    """The bisection's premise, for every strategy of a request."""
    from planner.workloads.points import valid_points

    ask = ask_of(seq=131072, loss_chunk_tokens=(128,))
    table = valid_points(ask.request, ask.backends, most_devices=8)
    totals = [StepMemory(Layout(setting_of(ask.at(seq_len=seq)), table)).parts()[1] for seq in (8192, 65536, 131072, 2**20)]
    assert all(np.all(after >= before) for before, after in pairwise(totals))
