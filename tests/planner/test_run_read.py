"""A run or a plan whose estimate was damaged is told as bad input, by key."""

import json

import pytest
import yaml

from lcplan.formats.errors import BadInputError
from planner.run.run_read import read_run

DAMAGE = [
    ("memory_bytes", 1.5, "memory_bytes: Input should be a valid dictionary"),
    ("memory_bytes", {"params": 1}, "memory_bytes has no total"),
    ("time_s", {"gemm": {}}, "time_s.gemm: Input should be a valid number"),
    ("step_s", 0, "step_s: Input should be greater than 0"),
    ("fits", None, "fits: Input should be a valid boolean"),
]


@pytest.mark.parametrize(("key", "value", "says"), DAMAGE)
def test_a_damaged_estimate_of_a_plan(finished_run, key, value, says):
    file = finished_run() / "plan.yaml"
    plan = yaml.safe_load(file.read_text())
    plan["evidence"]["estimate"][key] = value
    file.write_text(yaml.safe_dump(plan))
    with pytest.raises(BadInputError) as error:
        read_run(file)
    assert "plan.yaml: evidence.estimate: " in str(error.value)
    assert says.lower() in str(error.value).lower().replace("input should be an object", "input should be a valid dictionary")


@pytest.mark.parametrize(("key", "value", "says"), DAMAGE)
def test_a_damaged_estimate_of_a_result(finished_run, key, value, says):
    folder = finished_run()
    result = json.loads((folder / "result.json").read_text())
    result["candidates"][0]["estimate"][key] = value
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(BadInputError, match="not a whole result of an lcplan search"):
        read_run(folder)


def test_whole_ones_are_read(finished_run):
    folder = finished_run()
    assert read_run(folder).winner == read_run(folder / "plan.yaml").winner


@pytest.mark.parametrize(("stored", "now"), [("minimal", "save-except-mlp"), ("none", "save-all"), ("full", "full")])
def test_a_result_keeps_the_set_that_its_remat_name_meant_when_it_was_written(finished_run, stored, now):
    folder = finished_run()
    result = json.loads((folder / "result.json").read_text())
    result["candidates"][0]["strategy"]["remat"] = stored
    (folder / "result.json").write_text(json.dumps(result))
    request = json.loads((folder / "request.json").read_text())
    request["filters"]["remat"] = [stored]
    (folder / "request.json").write_text(json.dumps(request))
    run = read_run(folder)
    assert (run.candidates[0].strategy.remat, run.request.filters.remat) == (now, (now,))
