"""docs/regret.md has what today's laws make of the kept timings, and the choice holds its bars."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed():
    command = [sys.executable, str(ROOT / "benchmarks" / "regret.py"), "page"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def test_the_page_shows_it_as_it_is(printed):
    page = (ROOT / "docs" / "regret.md").read_text()
    shown = re.search(r"<!-- output: python benchmarks/regret.py page -->\n(.*?)<!-- output -->", page, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == printed


def test_five_timings_come_within_five_percent_and_the_order_is_right(printed):
    after_five = re.search(r"^\| 5 \| ([\d.]+) %", printed, re.MULTILINE)
    correlation = re.search(r"rank correlation of estimate and timing: ([\d.-]+)\.$", printed)
    assert float(after_five[1]) <= 5.0
    assert float(correlation[1]) >= 0.8


def test_the_kept_rows_are_the_whole_space():
    kept = json.loads((ROOT / "benchmarks" / "data" / "regret.json").read_text())["rows"]
    assert len(kept) == len({row["label"] for row in kept}) >= 60
    assert all(len(row["samples"]) >= 3 for row in kept)
