"""docs/adding.md: each section's edits, applied to a copy of the packages, give a program that prints what the page shows."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"# (?P<path>[\w./-]+)(?:, (?P<side>before|after|replace) `(?P<line>.*)`)?")
RUN_ALL = """
import contextlib, io, json, sys
from planner.cli.main import run
for words in json.loads(sys.argv[1]):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run(words)
    print(json.dumps([code, printed.getvalue()]))
"""


def edits(section):
    """The blocks of a section that change or add a file: file, place, text."""
    for language, body in FENCE.findall(section):
        first, _, text = body.partition("\n")
        place = PLACE.fullmatch(first)
        if language in ("python", "yaml", "json", "text") and place:
            yield place, text


def commands(section):
    """The commands of a section, each with the lines that the page shows under it."""
    bodies = [body for language, body in FENCE.findall(section) if language == "console"]
    parts = [part.splitlines() for body in bodies for part in re.split(r"^\$ lcplan ", body, flags=re.MULTILINE)[1:]]
    return [(shlex.split(lines[0]), lines[1:]) for lines in parts]


def apply(place, text, *, root):
    path = root / place["path"]
    if place["side"] is None:
        assert not path.exists(), f"{path} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if line.rstrip("\n") == place["line"]]
    assert len(found) == 1, f"{place['path']} has the line {place['line']!r} {len(found)} times"
    kept_before = found[0] + (place["side"] == "after")
    kept_after = found[0] + (place["side"] != "before")
    path.write_text("".join([*lines[:kept_before], text, *lines[kept_after:]]), encoding="utf-8")


def words(line):
    """A line without the bars and the column widths that follow from the terminal."""
    return " ".join(line.replace("█", " ").split())


@pytest.mark.parametrize("title", [title for title, text in SECTIONS.items() if list(edits(text))])
def test_a_member_is_added_by_its_edits_alone(title, tmp_path):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for place, text in edits(SECTIONS[title]):
        apply(place, text, root=tmp_path)
    asked = commands(SECTIONS[title])
    run = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps([command for command, _ in asked])],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(asked) > 0
    for (command, shown), (code, printed) in zip(asked, answers, strict=True):
        lines = [words(line) for line in printed.splitlines()]
        assert [line for line in map(words, shown) if line not in lines] == [], f"{' '.join(command)}\n{printed}"
        assert shown, f"the page shows nothing under: {' '.join(command)}"
        assert code == (2 if shown[0].startswith("lcplan:") else 0)


@pytest.mark.parametrize("kind", ["knob", "axis", "context scheme", "remat policy", "hardware", "model family", "trainer"])
def test_every_kind_of_member_has_a_section(kind):
    assert any(kind in title.lower() for title in SECTIONS)
