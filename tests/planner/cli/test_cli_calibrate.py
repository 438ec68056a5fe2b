"""``lcplan calibrate`` from the command line, with measurements that are made up: the file, the table, the document."""

from pathlib import Path

import pytest

from lcplan.catalog import hardware
from lcplan.spec.figure import Figure
from planner.calibrate.figures import Findings
from planner.calibrate.run import Calibration

WHERE = "lcplan calibrate, 2026-11-28, 8 x test, jax 0"
WARNING = "gemm_flop_per_s: its samples spread over 30 %; measure again on a quiet machine"


def figure(value):
    return Figure(value=value, source=f"{WHERE}: 5 shapes, medians of 35 samples, spread 3 %", kind="measured")


@pytest.fixture
def measured(monkeypatch):
    """What a call of ``calibrate`` finds, and with what it was called."""
    called = []
    call = {"latency_s": figure(1e-5), "member_latency_s": figure(0.0), "oneway_bytes_per_s": figure(1e11)}
    found = Findings({"gemm_flop_per_s": figure(5e14), "collectives": {"all-gather": call}}, figure(5e10), (WARNING,))

    def calibrate(hw, toolchain, *, finished):
        called.append(hw)
        finished(1, 1)
        return Calibration(hardware("dgx-h100"), "8 x test", WHERE, found)

    monkeypatch.setattr("planner.cli.commands.calibrate.calibrate", calibrate)
    return called


def test_the_file_is_what_hw_takes_and_the_table_has_every_figure(lcplan, measured):
    answer = lcplan("calibrate", "--out", "ours.yaml")
    assert (answer.code, measured) == (0, [None])
    assert answer.err == f"warning: {WARNING}\n"
    title, head, *rows = answer.out.splitlines()
    assert title == "8 x test, over dgx-h100: ours.yaml"
    assert head.split() == ["figure", "value", "spread", "and", "samples"]
    assert [row.split()[:2] for row in rows] == [
        ["gemm_flop_per_s", "5e+14"],
        ["collectives.all-gather", "1e+11"],
        ["host_oneway_bytes_per_s", "5e+10"],
    ]
    assert all(row.endswith("5 shapes, medians of 35 samples, spread 3 %") for row in rows)
    estimate = ("estimate", "--model", "llama3-8b", "--seq", "8k", "--mesh", "fsdp=8", "--format", "json")
    ours = lcplan(*estimate, "--hw", "ours.yaml").json["candidate"]["estimate"]
    assert WHERE in ours["basis"]["gemm"]
    assert ours["step_s"] > lcplan(*estimate, "--hw", "dgx-h100").json["candidate"]["estimate"]["step_s"]


def test_the_document(lcplan, measured):
    document = lcplan("calibrate", "--out", "ours.yaml", "--hw", "dgx-h100", "--format", "json").json
    assert (document["schema_version"], document["device"], document["file"]) == (1, "8 x test", "ours.yaml")
    assert document["overlay"]["device"]["rates"]["gemm_flop_per_s"]["value"] == 5e14
    assert document["overlay"]["notes"][-1] == f"WARNING: {WARNING}"
    assert measured == ["dgx-h100"]


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("ours.json", "a hardware spec is a YAML file (.yaml or .yml)"),
        ("ours", "a hardware spec is a YAML file (.yaml or .yml)"),
        ("absent/ours.yaml", "there is no folder absent; make it first"),
        ("folder.yaml", "that is a folder; name a file"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_measured(lcplan, measured, out, says):
    Path("folder.yaml").mkdir()
    answer = lcplan("calibrate", "--out", out)
    assert (answer.code, answer.err) == (2, f"lcplan: --out {out}: {says}\n")
    assert measured == []
