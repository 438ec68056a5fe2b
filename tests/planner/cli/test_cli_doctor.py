"""``lcplan doctor`` on a job's flags."""

GOOD, BAD = "--xla_gpu_enable_latency_hiding_scheduler=true", "--xla_gpu_graph_level=0"


def test_flags_are_looked_at_alone(lcplan):
    answer = lcplan("doctor", "--xla-flags", f"{GOOD} {BAD}", "--format", "json")
    assert answer.code == 0
    [toolchain] = answer.json["toolchains"]
    assert toolchain["flags"]["XLA_FLAGS"][GOOD] is True
    assert "xla_gpu_enable_command_buffer is in its place" in toolchain["flags"]["XLA_FLAGS"][BAD]
    assert "nvshmem" in toolchain["backends"]


def test_without_flags_there_are_none(lcplan):
    assert "flags" not in lcplan("doctor", "--quick", "--format", "json").json["toolchains"][0]


def test_the_table_shows_flags_in_place_of_targets(lcplan):
    answer = lcplan("doctor", "--xla-flags", BAD)
    assert answer.code == 0
    assert BAD in answer.out
    assert "no: unknown, and ends the process" in answer.out
    assert "target" not in answer.out
