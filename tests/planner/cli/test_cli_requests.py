"""Requests as files, from the environment and from questions; completion; and the list of runs."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from planner.cli.commands.setup.init import command as init
from planner.cli.main import COMMANDS, cli

JOB = {"model": "llama3-8b", "seq": "64k", "hw": "dgx-h100", "mesh": {"context": "4..8"}, "remat": ["full", "save-all"]}


def _strategies(answer):
    return {candidate["strategy"]["mesh"]["context"] for candidate in answer.json["candidates"]}


def test_a_yaml_file_of_options_is_a_request(lcplan):
    Path("request.yaml").write_text(yaml.safe_dump(JOB | {"stages": "modelled", "global-batch": 8}))
    answer = lcplan("search", "request.yaml", "--format", "json")
    assert answer.code == 0
    assert answer.json["request"]["workload"] == {
        "kind": "train", "seq_len": 65536, "global_batch": 8, "document_len": None, "precision": "bf16",
        "global_batch_given": True,
    }  # fmt: skip
    assert _strategies(answer) <= {4, 8}
    assert {candidate["strategy"]["remat"] for candidate in answer.json["candidates"]} <= {"full", "save-all"}


def test_set_and_options_come_before_the_file(lcplan):
    Path("request.yaml").write_text(yaml.safe_dump(JOB | {"stages": "modelled"}))
    answer = lcplan("search", "request.yaml", "--set", "seq=128k", "--set", "mesh=context=8", "--format", "json")
    assert answer.json["request"]["workload"]["seq_len"] == 131072
    assert _strategies(answer) == {8}
    over = lcplan("search", "request.yaml", "--set", "seq=128k", "--seq", "32k", "--format", "json")
    assert over.json["request"]["workload"]["seq_len"] == 32768


def test_the_request_of_a_run_given_back_is_the_same_question(lcplan):
    options = ("--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100x4", "--devices", "16", "--budget", "60GiB")
    options = (*options, "--mesh", "context=2..8", "--remat", "full,save-all", "--microbatches", "4,8", "--for", "maxtext")
    assert lcplan("search", *options, "--stages", "modelled", "--out", "run").code == 0
    again = lcplan("search", "run/request.json", "--stages", "modelled", "--out", "run")  # another request would be refused
    assert again.code == 0
    other = lcplan("search", "run/request.json", "--set", "budget=70GiB", "--stages", "modelled", "--out", "run")
    assert other.code == 2
    assert "holds another request" in other.err


def test_a_request_for_hardware_of_ones_own_is_given_back(lcplan):
    Path("mine.yaml").write_text(
        "name: mine\nbase: dgx-h100\nsource: a test\ndevice:\n"
        "  hbm_bytes: {value: 60000000000, kind: measured, source: a test}\n"
    )
    first = lcplan(
        "search", "--model", "llama3-8b", "--seq", "32k", "--hw", "mine.yaml", "--stages", "modelled", "--out", "run"
    )
    assert first.code == 0, first.err
    Path("mine.yaml").unlink()
    assert lcplan("search", "run/request.json", "--stages", "modelled", "--out", "run").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: llama3-8b", "request.yaml: no option 'modle'; did you mean 'model'?"),
        ("- model", "request.yaml: not a request"),
        ("model: {a: {b: []}}", "request.yaml: model: [] is no value of an option"),
    ],
)
def test_a_wrong_file_is_bad_input(lcplan, text, message):
    Path("request.yaml").write_text(text)
    answer = lcplan("search", "request.yaml")
    assert answer.code == 2
    assert message in answer.err


def test_set_without_a_value_is_bad_input(lcplan):
    answer = lcplan("search", "--set", "seq", "--model", "llama3-8b")
    assert answer.code == 2
    assert "--set 'seq': write KEY=VALUE" in answer.err


def test_every_option_reads_its_variable(lcplan, monkeypatch):
    for name, value in (("MODEL", "llama3-8b"), ("SEQ", "64k"), ("HW", "dgx-h100"), ("MESH", "context=8"), ("FORMAT", "json")):
        monkeypatch.setenv(f"LCPLAN_{name}", value)
    answer = lcplan("estimate")
    assert answer.json["candidate"]["strategy"]["mesh"]["context"] == 8
    assert lcplan("estimate", "--seq", "32k").json["request"]["workload"]["seq_len"] == 32768


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_80_columns(name):
    shown = CliRunner().invoke(cli, [name, "--help"], terminal_width=80)
    assert shown.exit_code == 0
    examples = shown.output.partition("Examples:")[0]
    assert max(map(len, examples.splitlines())) <= 80


def test_the_help_of_search_is_in_groups():
    shown = CliRunner().invoke(cli, ["search", "--help"]).output
    places = [shown.index(f"\n{name}") for name in ("Job:", "Job from a file", "Workload:", "Options:", "Space", "Output:")]
    assert places == sorted(places)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_names_the_program(lcplan, shell):
    answer = lcplan("completion", shell)
    assert answer.code == 0
    assert "_LCPLAN_COMPLETE" in answer.out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("lcplan sea", "search"),
        ("lcplan search --hw gb200", "gb200-nvl72"),
        ("lcplan search --remat full,save-a", "full,save-all"),
    ],
)
def test_the_shell_completes_commands_and_values(words, found):
    import sys

    environment = {"_LCPLAN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "lcplan"],
        env=__import__("os").environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"plain,{found}" in done.stdout.splitlines()


def test_init_asks_five_questions(lcplan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = CliRunner().invoke(init, [], input="llama3-8c\nllama3-8b\n128k\ndgx-h100x2\n8\nmaxtext\n")
    assert asked.exit_code == 0, asked.output
    assert "did you mean 'llama3-8b'" in asked.output
    written = yaml.safe_load(Path("request.yaml").read_text())
    assert written == {"model": "llama3-8b", "seq": "128k", "hw": "dgx-h100x2", "devices": 8, "for": "maxtext"}
    assert lcplan("search", "request.yaml", "--stages", "modelled").code == 0
    assert lcplan("init").code == 2


def test_runs_are_listed_with_their_winners(lcplan):
    assert "no runs in" in lcplan("runs").out
    job = ("--model", "llama3-8b", "--hw", "dgx-h100", "--stages", "modelled")
    lcplan("search", *job, "--seq", "64k", "--out", "first")
    lcplan("search", *job, "--seq", "32k")
    Path("cut").mkdir()
    Path("cut/request.json").write_text(json.dumps({}))
    rows = lcplan("runs", "--format", "json").json["runs"]
    assert {(row["run"].partition("/")[0], row["outcome"]) for row in rows} == {
        ("first", "fits"), ("lcplan-runs", "fits"), ("cut", "resumable"),
    }  # fmt: skip
    assert "llama3-8b" in lcplan("runs").out
