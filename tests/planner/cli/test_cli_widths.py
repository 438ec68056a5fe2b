"""Every answer fits the columns of its terminal or pipe: nothing is cut, and the last lines are the next commands."""

import re
import subprocess
import sys

import pytest

WIDTHS = (60, 80, 100, 140)
JOB = ("--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100x4")
COMMANDS = {
    "search": ("search", *JOB, "--stages", "modelled", "--out", "run", "-v"),
    "estimate": ("estimate", *JOB, "--mesh", "fsdp=8,context=4"),
    "max-seq": ("whatif", "max-seq", "--model", "llama3-8b", "--hw", "dgx-h100", "--global-batch", "1"),
    "sweep": ("whatif", "sweep", *JOB, "--vary", "devices=8..32"),
    "compare": ("compare", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100,dgx-h200,dgx-b200,gb200-nvl72:8"),
    "models": ("catalog", "models"),
    "hardware": ("catalog", "hardware"),
}
WHOLE = ("plan: ", "report: ", "next: ")
"""Beginnings of lines with a path or a command, which are never broken."""


@pytest.fixture
def shown(lcplan, monkeypatch):
    """What a command prints in so many columns, with the trailing blanks gone."""

    def run(command, width):
        monkeypatch.setenv("COLUMNS", str(width))
        return [line.rstrip() for line in lcplan(*command).out.splitlines()]

    return run


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut(shown, name, width):
    lines = shown(COMMANDS[name], width)
    assert not any("…" in line for line in lines)
    assert max(len(line) for line in lines if not line.startswith(WHOLE)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_candidate_keeps_its_figures_with_unit_and_mark(shown, width):
    lines = shown(COMMANDS["search"], width)
    first = next(line for line in lines if line.startswith("1 32: "))
    assert re.search(r"\d+(\.\d+)? s ~ .*\d+\.\d ~ +\d+\.\d$", first), first


def test_columns_that_leave_are_named_in_the_order_of_leaving(shown):
    left = [line for line in shown(COMMANDS["search"], 60) if line.startswith("left out at 60 columns: ")]
    assert left[0].endswith("tokens/s, backend, mb, scheme")
    assert not any("left out" in line for line in shown(COMMANDS["search"], 140))


def test_the_answer_is_first_and_last(lcplan):
    lines = lcplan(*COMMANDS["search"]).out.splitlines()
    winner = next(line for line in lines if line.startswith("Winner: ")).removeprefix("Winner: ")
    assert next(line for line in lines[2:] if line).startswith(f"{winner}: ")
    assert [line.partition(": ")[0] for line in lines[-4:]] == ["plan", "report", "next", "next"]
    assert lines[-2] == "next: lcplan explain run"


def test_quiet_prints_the_answer_alone(lcplan):
    answer = lcplan("search", *JOB, "--stages", "modelled", "-o", "run", "-q")
    assert answer.out.startswith("Winner: ")
    assert "Best candidates" not in answer.out
    assert answer.err == ""


def test_rejections_are_shown_on_request(lcplan):
    search = ("search", *JOB, "--stages", "modelled", "--out", "run")
    assert "Rejected" not in lcplan(*search).out
    assert "-v shows the rules" in " ".join(lcplan(*search).out.split())
    assert "Rejected, by the first rule that each breaks" in lcplan(*search, "-v").out


def test_a_reader_that_leaves_is_no_fault(tmp_path):
    search = [sys.executable, "-m", "lcplan", *COMMANDS["search"]]
    with subprocess.Popen(search, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(5)
        process.stdout.close()
        assert process.wait() == 0
