"""``lcplan inspect --profile`` and ``calibrate --from-profile`` from the command line, with a plan of two host devices."""

import pytest
from made_profiles import Plane, hlo, named, write

from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from planner.run.run_read import read_run

JOB = ("search", "--model", "llama-tiny", "--seq", "512", "--hw", "cpu-host", "--devices", "2", "--mesh", "fsdp=2")
PROGRAM = hlo(
    [
        named("all-gather.1", "all-gather", "jit(step)/gather", replica_groups=[{"replica_ids": [0, 1]}]),
        named("dot.2", "dot", "jit(step)/dot"),
        named("fusion.3", "fusion", "jit(step)/jvp(attention)/exp"),
    ]
)


@pytest.fixture
def profiled(lcplan, tmp_path):
    """A plan, and a profile in which products take twice the predicted time, attention half of it."""
    assert lcplan(*JOB, "--stages", "modelled", "--out", "run").code == 0
    times = read_run(tmp_path / "run").candidates[0].estimate["time_s"]
    planes = []
    for device in range(2):
        plane = Plane(f"/device:GPU:{device}")
        ends = (2e6 * times["gemm"], 2e6 * times["gemm"] + 0.5e6 * times["attention"])
        gather = (ends[1], ends[1] + 1000.0)
        for name, span in (("dot.2", (0.0, ends[0])), ("fusion.3", ends), ("all-gather.1", gather)):
            plane.event("Stream #1", "kernel", span, hlo_module="jit_step", hlo_op=name)
        planes.append(plane)
    return write(tmp_path / "trace", PROGRAM, *planes), times


def test_measured_parts_stand_beside_predicted_ones(lcplan, profiled):
    folder, times = profiled
    answer = lcplan("inspect", "--profile", str(folder), "run", "--format", "json")
    assert answer.code == 0
    rows = {row["part"]: row for row in answer.json["comparison"]}
    assert rows["gemm"]["measured_s"] / rows["gemm"]["predicted_s"] == pytest.approx(2, rel=1e-6)
    assert rows["attention"]["measured_s"] / rows["attention"]["predicted_s"] == pytest.approx(0.5, rel=1e-6)
    assert rows["comm_fsdp"]["measured_s"] == pytest.approx(1e-3)
    assert rows["optimizer"] == {"part": "optimizer", "predicted_s": times["optimizer"], "measured_s": 0.0, "hidden_s": 0.0}
    assert answer.json["predicted_step_s"] == pytest.approx(sum(times.values()))
    table = lcplan("inspect", "--profile", str(folder), "run").out
    assert "communication over fsdp" in table
    assert "all-gather  fsdp" in table
    assert "100.0 % of the step has a name" in table


def test_rates_follow_the_profile(lcplan, profiled):
    folder, _ = profiled
    base = hardware("cpu-host")
    before = rates_of(base)
    assert lcplan("calibrate", "--out", "mine.yaml", "--from-profile", str(folder), "--plan", "run").code == 0
    after = rates_of(hardware("mine.yaml"))
    assert after.gemm.value / before.gemm.value == pytest.approx(0.5, rel=1e-3)
    assert after.attention_forward.value / before.attention_forward.value == pytest.approx(2.0, rel=1e-3)
    assert "--from-profile" in after.gemm.source
    assert lcplan("estimate", "--model", "llama-tiny", "--seq", "512", "--hw", "mine.yaml", "--mesh", "fsdp=2").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inspect",), "give a plan, a step file, 'part KIND' or --profile DIR"),
        (("inspect", "part", "layer"), "the kind of part is one of matmul, ffn, attention, collective"),
        (("inspect", "part", "matmul", "--hw", "cpu-host"), "--shape: missing; every part needs it"),
        (("inspect", "--profile", ".", "--mesh", "tensor=2"), "--mesh: a profile does not take it"),
        (("inspect", "--profile", "."), "no *.xplane.pb"),
        (("calibrate", "--out", "x.yaml", "--plan", "run"), "--plan: goes with --from-profile"),
        (("calibrate", "--out", "x.yaml", "--from-profile", ".", "--hw", "cpu-host"), "--hw: --from-profile does not take it"),
    ],
)
def test_bad_input(lcplan, words, message):
    answer = lcplan(*words)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


def test_a_fit_needs_the_plan(lcplan, profiled):
    answer = lcplan("calibrate", "--out", "x.yaml", "--from-profile", str(profiled[0]))
    assert answer.code == 2
    assert "--plan PLAN|RUN" in answer.err


def test_a_plan_of_fewer_devices_is_another_plan(lcplan, profiled):
    assert lcplan(*JOB[:7], "--devices", "1", "--stages", "modelled", "--out", "one").code == 0
    answer = lcplan("inspect", "--profile", str(profiled[0]), "one")
    assert answer.code == 2
    assert "the plan takes 1 devices, and the profile has 2" in answer.err
