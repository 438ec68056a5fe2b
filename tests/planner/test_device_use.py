"""A winner on fewer devices than there are says so first, why, and what would use more; the change is one that was priced."""

import pytest

from planner.cli.main import run
from planner.request.request_changes import Ask
from planner.run.device_use import device_use
from planner.workloads.points import analyse

BACKENDS = ("nccl",)


def use_of(request):
    analysis = analyse(request, BACKENDS)
    winner = next(analysis.survivors())
    return device_use(analysis, winner, Ask(request, BACKENDS, request.devices or request.hardware.devices))


def test_a_batch_that_more_devices_can_share_is_offered_with_its_gain(ask):
    found = use_of(ask())
    assert (found.used, found.there, found.change, found.change_devices) == (64, 72, "--global-batch 18", 72)
    assert found.gain_ratio > 1.05
    assert "data x fsdp = 9 does not divide global_batch=16 sequences" in found.says
    assert use_of(ask(batch=18)) is None, "the change does what it says"


def test_a_fixed_segment_that_leaves_most_devices_is_named(ask):
    found = use_of(ask("llama3-8b", "gb200-nvl72x4", seq=2**17, batch=36, segment=(32,)))
    assert found.used <= 128
    assert (found.change, found.change_devices) == ("no --segment", 288)


def test_more_devices_that_are_slower_are_no_advice(ask):
    found = use_of(ask("llama3-8b", "gb200-nvl72", seq=2**15, batch=128, objective="tokens_per_s_per_device"))
    assert found.why == "the objective is tokens/s per device"


@pytest.mark.parametrize("fields", [{"devices": 64}, {"hw": "dgx-h100", "seq": 65536, "batch": 64}])
def test_a_winner_on_all_devices_needs_no_word(ask, fields):
    assert use_of(ask(**fields)) is None


def test_it_is_the_first_line_and_in_the_json(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["search", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--stages", "modelled"]
    assert run(words) == 0
    assert capsys.readouterr().out.startswith("uses 64 of 72 devices: ")
    assert run([*words, "--format", "json"]) == 0
    assert '"device_use": {' in capsys.readouterr().out
