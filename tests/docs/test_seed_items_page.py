"""docs/seeds.md, item by item: every row has a known state, and every test that it names exists."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
ITEMS = (TESTS.parent / "docs" / "seeds.md").read_text().partition("\n## Item by item\n")[2]
STATES = ("works", "partly", "other", "outside", "missing")


def _rows():
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in ITEMS.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] != "item" and not set(row[0]) <= {"-"}]


@cache
def _tests_in(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def _exists(name):
    file, _, function = name.partition("::")
    return (TESTS / file).is_file() and function in _tests_in(TESTS / file)


def test_there_are_items_of_three_sources():
    assert len(re.findall(r"^### Items of S[123]$", ITEMS, flags=re.MULTILINE)) == 3
    assert len(_rows()) >= 110
    assert [row for row in _rows() if row[1] not in STATES] == []


def test_what_works_is_held_by_a_test_that_exists():
    without = [row[0] for row in _rows() if row[1] in ("works", "partly") and not (len(row) > 3 and row[3])]
    assert without == []
    named = [name for row in _rows() for name in re.findall(r"`([\w/]+\.py::\w+)`", row[-1])]
    assert [name for name in named if not _exists(name)] == []


def test_every_other_state_gives_its_reason():
    assert [row[0] for row in _rows() if row[1] != "works" and len(row[2]) < 10] == []
