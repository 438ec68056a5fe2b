"""A trainer is one folder and one line: a toy, registered here alone, goes through every command and the report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract import TrainerContract

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.export.check import check_export, run_checker
from planner.export.folder import write_export
from planner.export.run import export_plan
from planner.report.view.trainer_files import trainer_files
from planner.trainers.checking import lcplan_checker
from planner.trainers.registry import TRAINERS, checker

HERE = Path(__file__).parent
LINE = "from planner.trainers.registry import TRAINERS; TRAINERS['toy'] = 'toy_trainer'"
RUN = f"import sys; {LINE}; from planner.cli.main import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture
def name(monkeypatch):
    monkeypatch.setitem(TRAINERS, "toy", "toy_trainer")
    return "toy"


class TestToy(TrainerContract):
    pass


def lcplan(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command of a process in which the toy is registered."""
    paths = os.pathsep.join([str(HERE), str(HERE.parents[2])])
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_command_takes_the_toy(tmp_path):
    job = ("--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100x4")
    found = lcplan(
        *("search", *job, "--devices", "32", "--for", "toy", "--stages", "modelled", "--out", "run"), folder=tmp_path
    )
    assert found.returncode == 0, found.stderr
    written = lcplan("export", "run", "--to", "toy", "--format", "json", folder=tmp_path)
    assert written.returncode == 0, written.stderr
    assert json.loads(written.stdout)["differences"] == []
    priced = lcplan("estimate", *job, "--from-toy", "run/toy/toy.json", "--format", "json", folder=tmp_path)
    assert priced.returncode == 0, priced.stderr
    planned = json.loads(written.stdout)["as_run"]["strategy"]
    assert json.loads(priced.stdout)["candidate"]["strategy"]["mesh"] == planned["mesh"]


def test_help_lists_the_toy(tmp_path):
    assert "toy" in lcplan("export", "--help", folder=tmp_path).stdout
    shown = lcplan("estimate", "--help", folder=tmp_path).stdout
    assert "--from-toy FILE.json" in shown
    assert "Read a Toy configuration" in shown


def test_a_filter_that_the_toy_does_not_run_is_refused_with_its_reason(tmp_path):
    job = ("--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100x4", "--for", "toy", "--scheme", "ring")
    answer = lcplan("search", *job, folder=tmp_path)
    assert answer.returncode == 2
    assert "--for toy: --scheme ring: Toy gathers keys and values; it runs all-gather" in answer.stderr


def test_the_report_has_its_files(name, finished_run):
    shown = {one.name: one for one in trainer_files(finished_run() / "plan.yaml")}
    assert "toy.json" in shown[name].files
    assert shown[name].launch == "python3 -m toy toy.json"


def test_its_checker_runs_and_a_missing_package_is_told(name, named_plans, tmp_path):
    export = export_plan(named_plans["8b-8k-h100"], name)
    write_export(tmp_path, export.files)
    request = {"file": str(tmp_path / "toy.json"), "layers": export.check_request["layers"]}
    [answer] = run_checker(sys.executable, checker(name), requests=[request])
    assert answer["accepted"]
    assert answer["facts"] == {"mesh": export.translation.job.strategy.mesh.model_dump(), "layers": 32}
    with pytest.raises(StageFailedError, match=r"toy-trainer is not installed in .*LCPLAN_TOY_PYTHON"):
        check_export(export, tmp_path, python=sys.executable)


def test_its_keys_are_listed_by_its_checker(name):
    command = [sys.executable, lcplan_checker.__file__, str(checker(name)), "--keys"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["checkpointing", "mesh"]


def test_without_its_line_it_is_unknown(named_plans):
    with pytest.raises(BadInputError, match="no trainer 'toy'"):
        export_plan(named_plans["8b-8k-h100"], "toy")
