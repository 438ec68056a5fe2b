"""Budget analysis: each change is enough, is the smallest of its kind, and is what its command line arguments say."""

from dataclasses import replace

import pytest

from planner.candidates.candidate import Candidate
from planner.request.filters import Filters, parse_mesh
from planner.request.request_changes import Ask
from planner.what_if.changes.smallest_change import LAST_RESORTS, changes_that_fit
from planner.what_if.feasible import fits_any, nearest_miss, rules_leave_any
from planner.workloads.pricing import price

BACKENDS = ("nccl",)


def _ask(request) -> Ask:
    return Ask(request, BACKENDS, request.devices or request.hardware.devices)


def _by_kind(found):
    return {change.kind: change for change in found}


@pytest.fixture
def too_long(ask):
    """Llama 3 8B at 6 Mi tokens on one H100 node: too much with activations on the host, too."""
    return _ask(ask("llama3-8b", "dgx-h100", seq=6 * 2**20, batch=2, devices=8))


def test_every_change_is_enough_and_alone(too_long):
    assert not fits_any(too_long)
    found = changes_that_fit(too_long)
    assert {"sequence", "devices"} <= {change.kind for change in found}
    for change in found:
        assert fits_any(change.ask)
        assert change.candidate.best.fits
        assert change.candidate.estimate == price(change.ask.request, change.candidate.strategy).estimate
        old, new = too_long.request.model_dump(), change.ask.request.model_dump()
        differing = {name for name in old if old[name] != new[name]}
        assert len(differing) == 1 or change.kind == "devices"


def test_changes_of_the_job_come_first_by_device_time_a_token(too_long):
    found = changes_that_fit(too_long)
    keys = [(change.kind in LAST_RESORTS, change.device_s_per_token) for change in found]
    assert keys == sorted(keys)
    for change in found:
        tokens = change.ask.request.workload.tokens
        assert change.device_s_per_token == pytest.approx(change.step_s * change.candidate.strategy.devices / tokens)


def test_the_sequence_is_the_longest_that_fits(too_long):
    change = _by_kind(changes_that_fit(too_long))["sequence"]
    length = change.ask.request.workload.seq_len
    unit = 128 * change.candidate.strategy.mesh.context
    assert not fits_any(too_long.with_request(too_long.at(seq_len=length + unit)))
    assert change.arguments[0] == "--seq"


def test_the_budget_is_the_least_that_is_enough(ask):
    request = ask("llama3-8b", "dgx-h100", seq=131072, batch=1, devices=8, budget_bytes=12 * 2**30)
    change = _by_kind(changes_that_fit(_ask(request)))["budget"]
    budget = change.ask.request.budget_bytes
    assert change.arguments == ("--budget", str(budget))
    less = change.ask.with_request(change.ask.request.model_copy(update={"budget_bytes": budget - 1}))
    assert not fits_any(less)


def test_no_budget_is_offered_beyond_the_devices_memory(ask):
    found = changes_that_fit(_ask(ask("llama3.1-405b", "dgx-h100", seq=8192, batch=8)))
    assert "budget" not in _by_kind(found)


def test_a_fixed_remat_policy_names_the_policy_that_fits(ask):
    request = ask("llama3-8b", "dgx-h100", seq=262144, batch=1, devices=8, remat=("none",))
    asked = _ask(request)
    assert not fits_any(asked)
    change = _by_kind(changes_that_fit(asked))["remat"]
    assert change.arguments == ("--remat", change.candidate.strategy.remat)
    assert change.says == f"--remat {change.candidate.strategy.remat} (it is save-all)"
    assert change.ask.request.filters.remat == (change.candidate.strategy.remat,)


def test_a_fixed_mesh_gets_more_context(ask):
    request = ask("llama3-8b", "dgx-h100", seq=524288, batch=8, mesh="context=1,tensor=1")
    asked = _ask(request)
    assert not fits_any(asked)
    meshes = [change for change in changes_that_fit(asked) if change.kind == "mesh"]
    assert meshes
    assert all(change.candidate.strategy.mesh.context > 1 or change.candidate.strategy.mesh.tensor > 1 for change in meshes)
    for change in meshes:
        assert change.ask.request.filters.mesh.items() >= parse_mesh(change.arguments[1]).items()


def test_bf16_moments_where_state_is_what_is_too_much(ask):
    """8.03 B parameters on 8 devices: 12 bytes each are 11.2 GiB of state; bf16 moments save 3.7 GiB."""
    request = ask("llama3-8b", "dgx-h100", seq=8192, batch=8, devices=8)
    least = nearest_miss(_ask(request.model_copy(update={"budget_bytes": 1})))
    need = least.estimate["memory_bytes"]["total"] + least.estimate["allowance_bytes"]
    asked = _ask(request.model_copy(update={"budget_bytes": need - 2**30}))
    change = next(change for change in changes_that_fit(asked) if change.arguments == ("--moments-dtype", "bf16"))
    assert change.candidate.strategy.moments_dtype == "bf16"
    assert "dtype" not in _by_kind(changes_that_fit(asked, without=("dtype",)))


def test_fewer_sequences_where_the_batch_is_what_is_too_much(ask):
    request = ask("llama3-8b", "dgx-h100", seq=32768, batch=256, devices=8, microbatches=(1,))
    found = _by_kind(changes_that_fit(_ask(request)))
    batch = found["batch"].ask.request.workload.global_batch
    twice = found["batch"].ask.at(global_batch=2 * batch)
    assert not fits_any(_ask(twice))
    assert found["filters"].arguments[0] == "--microbatches"


def test_more_devices_are_exact_where_the_request_is(ask):
    exact = _ask(ask("llama3.1-70b", "dgx-h100", seq=32768, batch=8, devices=8))
    change = _by_kind(changes_that_fit(exact))["devices"]
    assert change.arguments == ("--hw", "dgx-h100x4", "--devices", "32")
    assert change.ask.request.devices == change.candidate.strategy.devices == 32
    limit = replace(exact, request=exact.request.model_copy(update={"devices": None}))
    assert _by_kind(changes_that_fit(limit))["devices"].arguments == ("--hw", "dgx-h100x4")


def test_the_document(too_long):
    entry = changes_that_fit(too_long)[0].to_json()
    assert set(entry) == {"change", "kind", "arguments", "step_s", "device_s_per_token", "strategy"}
    assert isinstance(changes_that_fit(too_long)[0].candidate, Candidate)


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        # 7 sequences over fsdp 8
        ({"seq": 8192, "batch": 7, "devices": 8, "mesh": parse_mesh("fsdp=8")}, ("--global-batch", "8")),
        # no power of two divides 4097 tokens, and no eight ranks divide one sequence
        ({"seq": 4097, "batch": 1, "devices": 8}, ("--seq", "4104")),
        # one device could train one sequence of seven tokens, but has no room for the state
        ({"seq": 7, "batch": 1, "model": "llama3-70b"}, ("--global-batch", "16")),
        ({"seq": 8192, "batch": 3, "devices": 16, "mesh": parse_mesh("context=1,tensor=1")}, ("--global-batch", "16")),
        # 12 devices are one host and a half
        ({"seq": 8192, "batch": 16, "devices": 12}, ("--devices", "8")),
        ({"seq": 8192, "batch": 16, "devices": 12}, ("--devices", "16")),
        # axes of 7 devices divide neither heads nor widths
        ({"seq": 8192, "batch": 16, "devices": 7}, ("--devices", "4")),
        ({"seq": 8192, "batch": 16, "devices": 7}, ("--devices", "8")),
    ],
)
def test_where_the_rules_leave_nothing_the_next_number_that_divides_is_offered(ask, fields, arguments):
    mesh = fields.pop("mesh", None)
    request = ask(fields.pop("model", "llama3-8b"), "dgx-h200x2", **fields)
    asked = _ask(request if mesh is None else request.model_copy(update={"filters": Filters(mesh=mesh)}))
    assert not rules_leave_any(asked)
    assert arguments in [change.arguments for change in changes_that_fit(asked)]


def test_a_length_that_few_axes_divide_is_padded_where_nothing_fits(ask):
    """12345 = 3 x 5 x 823 leaves context 3 and 5 alone, too few for 70 B parameters."""
    asked = _ask(ask("llama3-70b", "tpu-v4-128", seq=12345, batch=8))
    assert rules_leave_any(asked)
    padded = [change for change in changes_that_fit(asked) if "padded" in change.says]
    assert len(padded) == 1
    assert 12345 < padded[0].ask.request.workload.seq_len < 12345 * 1.1


def test_no_other_number_is_offered_where_the_rules_leave_something(too_long):
    assert rules_leave_any(too_long)
    assert all("padded" not in change.says and "share" not in change.says for change in changes_that_fit(too_long))


def test_offloading_is_a_change_of_the_remat_policy(ask):
    """Llama 3 8B at 1.5 Mi tokens on one H100 node: with everything recomputed on the device too much, with offload enough."""
    asked = _ask(ask("llama3-8b", "dgx-h100", seq=3 * 2**19, batch=2, devices=8, remat=("full",)))
    assert not fits_any(asked)
    change = _by_kind(changes_that_fit(asked))["remat"]
    assert change.arguments == ("--remat", "offload-attention")
    assert change.ask.request.filters.remat == ("offload-attention",)
    assert fits_any(change.ask)
