"""``lcplan search --step`` through the command line, on host devices."""

import sys
from pathlib import Path

import pytest

from lcplan.evidence.step_plan import StepPlan

sys.path.insert(0, str(Path(__file__).parents[1] / "own_step"))
from own_steps import STEP, written

GO = (
    "search",
    "--step",
    "my_step.py",
    "--hw",
    "cpu-host",
    "--devices",
    "4",
    "--seq",
    "8",
    "--global-batch",
    "2",
    "--out",
    "run",
)


def test_search_compiles_once_and_writes_a_plan(lcplan, tmp_path):
    written(tmp_path)
    first = lcplan(*GO, "--format", "json")
    assert first.code == 0, first.err
    document = first.json
    assert document["space"]["enumerated"] == 6
    assert document["space"]["rejected"] == {"global_batch % rows == 0": 2}
    compiled = [one["compiled"] for one in document["candidates"]]
    assert len(compiled) == 4
    assert all(one["total_bytes"] > 0 and one["buffers"] for one in compiled)
    winner = document["winner"]
    assert winner["best"]["fits"]
    assert winner["best"]["step_s"] == min(one["best"]["step_s"] for one in document["candidates"])
    reduced = next(one for one in document["candidates"] if one["strategy"]["mesh"] == {"rows": 2, "cols": 2})["compiled"]
    assert {use["axis"] for use in reduced["collectives"]} <= {"rows", "cols", "rows+cols"}

    again = lcplan(*GO, "--format", "json").json
    assert [one["compiled"]["finished_at"] for one in again["candidates"]] == [one["finished_at"] for one in compiled]

    plan = StepPlan.load(tmp_path / "run" / "plan.yaml")
    assert plan.argument == {key: value for key, value in winner["strategy"].items() if key != "devices"}
    assert plan.mesh_axes == ("rows", "cols")


@pytest.mark.slow
def test_edited_file_is_compiled_again(lcplan, tmp_path):
    file = written(tmp_path)
    one = ("--mesh", "rows=2", "--knob", "remat=full")
    before = lcplan(*GO, *one, "--format", "json").json
    file.write_text(STEP.replace("WIDTH = 64", "WIDTH = 128"))
    after = lcplan(*GO, *one, "--format", "json").json
    assert after["winner"]["compiled"]["argument_bytes"] > 2 * before["winner"]["compiled"]["argument_bytes"]


@pytest.mark.slow
def test_nothing_fits_is_exit_1_with_the_nearest_miss(lcplan, tmp_path):
    written(tmp_path)
    answer = lcplan(*GO, "--mesh", "rows=2", "--budget", "1KiB")
    assert answer.code == 1
    assert "Nearest miss: rows=2,cols=2 remat=full" in answer.out


def test_failing_step_is_exit_3_and_names_the_line(lcplan, tmp_path):
    written(tmp_path, STEP.replace("    def layer(x, w):", "    jnp.zeros(2) @ jnp.zeros(3)\n\n    def layer(x, w):"))
    answer = lcplan(*GO, "--mesh", "rows=2", "--knob", "remat=full")
    assert answer.code == 3
    assert "my_step.py:15: TypeError: dot_general" in answer.err


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--remat", "full"), "--remat is a knob of lcplan's own step; of a step file write --knob remat=full"),
        (("--model", "llama3-8b"), "--model does not go with --step: the step file has its own model"),
        (("--engine", "dask:2"), "workers of other machines run no files of users"),
        (("--stages", "modelled"), "a step file is compiled"),
        (("--tune", "4"), "--tune does not go with --step"),
        (("--from-maxtext", "my.yml"), "the step has its own program; leave my.yml out"),
    ],
)
def test_options_of_lcplans_own_step_are_refused(lcplan, tmp_path, options, fault):
    written(tmp_path)
    answer = lcplan(*GO, *options)
    assert answer.code == 2
    assert fault in answer.err


def test_a_step_needs_hardware(lcplan, tmp_path):
    written(tmp_path)
    answer = lcplan("search", "--step", "my_step.py")
    assert answer.code == 2
    assert "Missing option '--hw'" in answer.err


def test_knob_needs_a_step_file(lcplan):
    answer = lcplan("search", "--model", "llama3-8b", "--seq", "8k", "--hw", "dgx-h100", "--knob", "remat=full")
    assert answer.code == 2
    assert "name it with --step" in answer.err


def test_a_search_without_model_and_step_is_refused(lcplan):
    answer = lcplan("search", "--seq", "8k", "--hw", "dgx-h100")
    assert answer.code == 2
    assert "Missing option '--model'" in answer.err


def test_a_step_needs_hardware_and_takes_no_file_of_a_trainer(lcplan, tmp_path):
    (tmp_path / "step.py").write_text("LCPLAN = {'axes': {'data': 'batch'}}\n")
    answer = lcplan("search", "--step", "step.py")
    assert answer.code == 2
    assert "Missing option '--hw'" in answer.err
    answer = lcplan("search", "--step", "step.py", "--hw", "dgx-h100", "--from-maxtext", "my.yml")
    assert answer.code == 2
    assert "the step has its own program; leave my.yml out" in answer.err
