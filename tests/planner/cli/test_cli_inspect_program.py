"""``lcplan inspect`` on a step file and on a plan."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "own_step"))
from own_steps import written

ONE = ("--hw", "cpu-host", "--mesh", "rows=2,cols=2", "--knob", "remat=full", "--seq", "64", "--global-batch", "8")


def test_step_file_shows_buffers_collectives_and_kernels(lcplan, tmp_path):
    written(tmp_path)
    answer = lcplan("inspect", "my_step.py", *ONE, "--hlo", "step.hlo", "--format", "json")
    assert answer.code == 0, answer.err
    (one,) = answer.json["variants"]
    assert any(buffer["line"].startswith("my_step.py:") for buffer in one["compiled"]["buffers"])
    assert sum(kernel["flop"] for kernel in one["kernels"]) > 0
    assert {use["axis"] for use in one["collectives"]} & {"rows", "cols"}
    assert all(0 <= use["exposed_s"] <= use["total_s"] * 1.000001 for use in one["collectives"])
    assert one["step_s"] == pytest.approx(sum(one["time_s"].values()))
    assert (tmp_path / "step.hlo").read_text().startswith("HloModule jit_step")


def test_page_shows_memory_over_the_step_and_what_is_saved(lcplan, tmp_path):
    written(tmp_path)
    answer = lcplan("inspect", "my_step.py", *ONE, "--page", "inside.html", "--format", "json")
    assert answer.code == 0, answer.err
    (one,) = answer.json["variants"]
    inside = one["inside"]
    stacked = inside["saved"][0]  # the input of each of two layers: 64 x 8 tokens on two of four ranks, width 64 on two
    assert (stacked["shape"], stacked["bytes"]) == ("f32[2,256,32]", 2 * 256 * 32 * 4)
    assert sum(saved["bytes"] for saved in inside["saved"]) <= inside["saved_bytes"]
    curve = inside["memory"]
    assert max(curve["bytes"]) == curve["peak_bytes"] <= one["compiled"]["total_bytes"]
    assert curve["peak_bytes"] > 0.9 * one["compiled"]["total_bytes"]
    page = (tmp_path / "inside.html").read_text()
    assert all(f'id="spec-{name}"' in page for name in ("timeline", "memory", "parts"))
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    assert "Saved for the backward pass" in page


@pytest.mark.slow
def test_a_flag_is_compared_with_the_default(lcplan, tmp_path):
    written(tmp_path)
    answer = lcplan("inspect", "my_step.py", *ONE, "--flag", "xla_cpu_enable_fast_math=true")
    assert answer.code == 0, answer.err
    assert "Difference of the flags" in answer.out
    assert "xla_cpu_enable_fast_math=True" in answer.out


@pytest.mark.slow
def test_plan_of_lcplans_own_step(lcplan, tmp_path):
    model = tmp_path / "tiny.yaml"
    model.write_text("{name: tiny, layers: 2, d_model: 64, d_ff: 128, heads: 4, kv_heads: 2, head_dim: 16, vocab: 256}\n")
    go = ("--model", str(model), "--seq", "256", "--hw", "cpu-host", "--mesh", "fsdp=2", "--stages", "modelled", "--out", "run")
    assert lcplan("search", *go).code == 0
    answer = lcplan("inspect", "run", "--format", "json")
    assert answer.code == 0, answer.err
    (one,) = answer.json["variants"]
    assert one["compiled"]["total_bytes"] > 0
    assert "fsdp" in {use["axis"] for use in one["collectives"]}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("my_step.py", *ONE, "--shape", "B=8"), "--shape: for `inspect part`; my_step.py has its own step"),
        (("part", "matmul", "--shape", "B=8,D=8,F=8", "--hw", "cpu-host", "--seq", "8"), "--seq: for the step of a plan"),
        (("my_step.py", *ONE, "--page", "."), "--page .: is a folder"),
        (("none.yaml",), "no such file or folder"),
        ((), "give a plan, a step file, 'part KIND' or --profile DIR"),
    ],
)
def test_bad_input(lcplan, tmp_path, arguments, fault):
    written(tmp_path)
    answer = lcplan("inspect", *arguments)
    assert answer.code == 2
    assert fault in answer.err
