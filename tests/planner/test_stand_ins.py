"""Figures of another device that stand in for unpublished ones: the answer says so, and they count against the budget."""

from __future__ import annotations

import json

import pytest

from lcplan import catalog
from planner.cli.main import run

NOTE = "runtime_bytes and communicator_bytes of the allowance are stand-ins from other devices"


def estimated(capsys, hardware):
    assert (
        run(["estimate", "--model", "llama3-8b", "--seq", "8k", "--hw", hardware, "--mesh", "fsdp=8", "--format", "json"]) == 0
    )
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("hardware", ["mi300x", "mi325x", "mi350x", "mi355x"])
def test_amds_allowance_is_a_stand_in_that_counts(capsys, hardware):
    found = estimated(capsys, hardware)
    assert any(NOTE in note for note in found["notes"])
    allowance = catalog.hardware(hardware).allowance
    least = allowance.runtime_bytes.value + allowance.communicator_bytes.value
    assert found["candidate"]["estimate"]["allowance_bytes"] >= least


def test_measured_allowances_need_no_note(capsys):
    assert not any("stand-in" in note for note in estimated(capsys, "dgx-h100")["notes"])
