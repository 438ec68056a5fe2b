"""The tool that changes the constants of the cost models, and the share of its changes that the unit tests notice."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from mutate_constants import literals, mutants

ROOT = Path(__file__).parents[2]
SOURCE = """
A = 2.0
B = x[:4]
C: Annotated[int, Field(gt=5)] = 6
def f(x):
    return 3 * x[1] + x.sum(axis=0) / max(x, 1e-30)
"""


def test_quantities_are_changed_and_indices_axes_and_guards_are_not():
    assert [node.value for node, _ in literals(ast.parse(SOURCE))] == [2.0, 6, 3]


def test_every_mutant_compiles_and_differs_in_one_literal():
    found = mutants()
    assert len(found) > 600
    for mutant in found[::25]:
        mutant.code()
        assert mutant.changed != mutant.value


@pytest.mark.slow
def test_nine_of_ten_changes_are_noticed():
    command = [sys.executable, "benchmarks/mutate_constants.py", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
