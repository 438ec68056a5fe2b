"""The README's output is that of the program as it is: its counts and its order are compared with a modelled search."""

import re
from pathlib import Path

import pytest

from planner.cli.main import run

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCK = re.search(r"<!-- output -->\n```text\n(.*?)```\n<!-- /output -->", README, re.DOTALL)


@pytest.fixture
def modelled(capsys, tmp_path, monkeypatch):
    """What the README's search prints without its compiles."""
    monkeypatch.chdir(tmp_path)
    command = re.search(r"lcplan (search --model [^\n]*)", README)
    assert command is not None
    assert run([*command[1].split(), "--stages", "modelled"]) == 0
    return capsys.readouterr().out


def _funnel(text):
    return re.search(r"^[\d,]+ strategies: .*?over budget", text, re.MULTILINE)[0]


def test_the_counts_are_those_of_today(modelled):
    assert BLOCK is not None
    assert _funnel(BLOCK[1]) == _funnel(modelled)


def test_the_winner_is_that_of_today(modelled):
    winner = re.compile(r"^Winner: (.*)$", re.MULTILINE)
    assert winner.search(BLOCK[1])[1] == winner.search(modelled)[1]


def _labels(text):
    """Names of the parts in both breakdowns: indented lines with a share and a bar."""
    return re.findall(r"^  (\S.*?)  +\S+ \S+ +[\d.]+%  █", text, re.MULTILINE)


def test_the_parts_are_labelled_as_today(modelled):
    assert len(_labels(modelled)) > 10
    assert _labels(BLOCK[1]) == _labels(modelled)


def test_the_legend_is_that_of_today(modelled):
    legend = re.compile(r"^mesh: devices: .*$", re.MULTILINE)
    assert legend.search(BLOCK[1])[0] == legend.search(modelled)[0].rstrip()
