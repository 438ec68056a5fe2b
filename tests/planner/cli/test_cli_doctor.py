"""``lcplan doctor``: flags of a job, backends and their conditions."""

import json

from planner.measure.targets.toolchain import NEEDED

GOOD, BAD = "--xla_gpu_enable_latency_hiding_scheduler=true", "--xla_gpu_graph_level=0"


def test_flags_are_looked_at_alone(lcplan):
    answer = lcplan("doctor", "--xla-flags", f"{GOOD} {BAD}", "--format", "json")
    assert answer.code == 2
    [toolchain] = answer.json["toolchains"]
    assert toolchain["flags"]["XLA_FLAGS"][GOOD] is True
    assert "xla_gpu_enable_command_buffer is in its place" in toolchain["flags"]["XLA_FLAGS"][BAD]
    assert "nvshmem" in toolchain["backends"]


def test_known_flags_are_no_fault(lcplan):
    assert lcplan("doctor", "--xla-flags", GOOD).code == 0


def test_without_flags_there_are_none(lcplan):
    assert "flags" not in lcplan("doctor", "--quick", "--format", "json").json["toolchains"][0]


def test_the_table_shows_flags_in_place_of_targets(lcplan):
    answer = lcplan("doctor", "--xla-flags", BAD)
    assert answer.code == 2
    assert BAD in answer.out
    assert "no: unknown, and ends the process" in answer.out
    assert "target" not in answer.out


CRITERIA = ("each process has one device", "in one process", "in one NVLink domain")


def test_the_conditions_of_a_backend_are_shown(lcplan):
    needs = lcplan("doctor", "--quick", "--format", "json").json["toolchains"][0]["needs"]
    assert all(criterion in needs["nvshmem"] for criterion in CRITERIA)
    assert needs["nccl"] == "nothing more"
    if lcplan("doctor", "--quick", "--format", "json").json["toolchains"][0]["backends"]["nvshmem"] is True:
        shown = " ".join(lcplan("doctor", "--quick").out.split())
        assert "needs: XLA assigns it to collective-permutes" in shown


def test_an_older_jax_was_not_tried(lcplan, tmp_path):
    python = tmp_path / "python"
    found = dict.fromkeys(NEEDED, "1") | dict.fromkeys(("jax", "jaxlib", "cuda12_plugin", "cuda12_pjrt"), "0.8.2")
    found["python"] = "3.11.0"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    python.chmod(0o755)
    toolchain = lcplan("doctor", "--quick", "--toolchain", str(python), "--format", "json").json["toolchains"][1]
    assert toolchain["jax"] == "0.8.2"
    assert toolchain["backends"]["nvshmem"].startswith("jax 0.8.2 cannot compile for an absent GPU; 0.9.2 and newer can")
