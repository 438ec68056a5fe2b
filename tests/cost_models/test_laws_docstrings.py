"""Every public function and class of the cost models names its units and its source.

A function has numpy sections. A class names the source that its properties share, and each property or method that returns a
quantity has its unit in its first sentence or paragraph.
"""

import ast
import re
from pathlib import Path

import pytest

import cost_models

PACKAGE = Path(cost_models.__file__).parent
SECTIONS = ("Parameters\n", "Returns\n", "Notes\n")
NO_MODELS = {
    "Fitted": "a row of data/constants.yaml, which has unit and source as fields",
    "Rate": "a figure that has its source as a field",
    "CollectiveRate": "a figure that has its source as a field",
    "Program": "choices of a trainer's program, each described at its field",
    "Part": "a record of a part",
    "StrategyTable": "strategies as columns",
    "RolloutTable": "strategies as columns",
    "IterationTable": "strategies as columns",
    "RolloutEstimate": "an EstimateTable",
}
"""Classes that hold no equation, with the reason."""
UNIT = re.compile(
    r"\[(bytes|s|FLOP|tokens|sequences|elements|features|rows|count|ratio|no unit|row index)( per [a-z ]+)?\]", re.IGNORECASE
)
NO_EQUATIONS = {"inputs/table": "strategies as columns"}
"""Modules whose functions compute no quantity, with the reason."""
QUANTITIES = ("Floats", "float", "Ints")


def trees():
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).with_suffix("").as_posix(), ast.parse(file.read_text()).body


def functions():
    for module, body in trees():
        for node in () if module in NO_EQUATIONS else body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield pytest.param(node, id=f"{module}.{node.name}")


def classes():
    for module, body in trees():
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in NO_MODELS:
                yield pytest.param(node, id=f"{module}.{node.name}")


def members():
    for case in classes():
        for node in case.values[0].body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield pytest.param(node, id=f"{case.id}.{node.name}")


@pytest.mark.parametrize("function", list(functions()))
def test_a_function_names_units_and_source(function):
    text = ast.get_docstring(function) or ""
    for section in SECTIONS:
        assert section in text, f"{function.name} has no section {section.strip()}"
    returns = text.split("Returns\n")[1].split("Notes\n")[0]
    assert re.search(r"\[[^\]]+\]", returns), f"{function.name} returns something without a unit"
    assert re.search(r"Source: \S+", text), f"{function.name} has no source"
    for argument in (*function.args.args, *function.args.kwonlyargs):
        assert re.search(rf"^{argument.arg} : ", text, re.MULTILINE), f"{function.name} does not explain {argument.arg}"


@pytest.mark.parametrize("model", list(classes()))
def test_a_class_names_the_source_that_its_properties_share(model):
    text = ast.get_docstring(model) or ""
    assert re.search(r"Source: \S+", text), f"{model.name} has no source"


@pytest.mark.parametrize("member", list(members()))
def test_a_property_that_is_a_quantity_has_its_unit(member):
    text = ast.get_docstring(member) or ""
    head = text.split("\n\n")[0]
    assert head.endswith("."), f"{member.name} is not described in a sentence"
    returned = ast.unparse(member.returns) if member.returns else ""
    if any(re.search(rf"\b{name}\b", returned) for name in QUANTITIES):
        assert UNIT.search(head), f"{member.name} has no unit"


def test_exceptions_are_classes_that_exist_and_have_a_reason():
    found = {node.name for _, body in trees() for node in body if isinstance(node, ast.ClassDef)}
    assert set(NO_MODELS) <= found
    assert all(NO_MODELS.values())


def test_there_are_models_to_look_at():
    assert (len(list(functions())) >= 60, len(list(classes())) >= 20, len(list(members())) >= 180) == (True, True, True)
