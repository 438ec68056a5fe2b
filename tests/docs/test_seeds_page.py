"""docs/seeds.md: its commands print the lines that stand under them, and the table of ratios is of figures in the page."""

import re
from pathlib import Path

import pytest

from planner.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text()
BLOCK = re.compile(r"(?:<!-- compiled: (?P<target>\w+) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)


def _blocks(target):
    """Commands of the page's blocks for this target (None: analytic), each with the lines shown under it."""
    bodies = [found["body"] for found in BLOCK.finditer(PAGE) if found["target"] == target]
    commands = [part for body in bodies for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
    assert all(command.startswith("lcplan ") for command in commands)
    return [(command.splitlines()[0], command.splitlines()[1:]) for command in commands]


def _short(line):
    """Words of a line; a bar's length and a column's width follow from the terminal."""
    return " ".join(line.replace("█", " ").split())


def _check(command, lines, capsys):
    code = run(command.split()[1:])
    captured = capsys.readouterr()
    printed = [_short(line) for line in (captured.out + captured.err).splitlines()]
    assert lines, f"nothing is shown under: {command}"
    assert [line for line in map(_short, lines) if line not in printed] == [], captured.out
    assert code == (2 if lines[0].startswith("lcplan:") else 0)


@pytest.mark.parametrize(("command", "lines"), _blocks(None), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_prints_what_the_page_shows(command, lines, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _check(command, lines, capsys)


@pytest.mark.slow
@pytest.mark.tpu_target
@pytest.mark.parametrize(("command", "lines"), _blocks("tpu_target"), ids=lambda value: value if isinstance(value, str) else "")
def test_a_compile_prints_what_the_page_shows(command, lines, capsys, tmp_path, monkeypatch):
    pytest.importorskip("libtpu")
    monkeypatch.chdir(tmp_path)
    _check(command, lines, capsys)


def test_every_table_of_the_sources_is_on_the_page():
    shown = {command.split()[-1] for command, _ in _blocks(None) if command.startswith("lcplan validate")}
    tables = Path(__file__).parents[2] / "cost_models" / "tables"
    assert shown == {path.stem for path in tables.glob("seed-*.yaml")}


def test_the_ratios_are_those_of_the_figures_above_them():
    times = {
        batch: (float(none), float(full))
        for batch, none, full in re.findall(
            r"^ +(\d+)  none +[\d.]+ GiB ([\d.]+) ms +full +[\d.]+ GiB ([\d.]+) ms$", PAGE, re.MULTILINE
        )
    }
    cost = [f"{full / none:.2f}" for none, full in (times["32"], times["64"])]
    assert f"| {cost[0]}, {cost[1]} |" in PAGE
    assert f"flash attention | {18.0 / 13.8:.2f} | {times['32'][0] / times['64'][0]:.2f} |" in PAGE
    assert f"falls, {times['128'][1]:.2f} to {times['256'][1]:.2f}" in PAGE
