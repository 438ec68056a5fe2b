"""Every public law says what it returns in which unit, and where it comes from."""

import ast
import re
from pathlib import Path

import pytest

import cost_models

PACKAGE = Path(cost_models.__file__).parent
NOT_LAWS = {"table", "setting", "layout"}  # columns and settings, no equations
SECTIONS = ("Parameters\n", "Returns\n", "Notes\n")


def laws():
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.stem in NOT_LAWS:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield pytest.param(node, id=f"{file.stem}.{node.name}")


@pytest.mark.parametrize("law", list(laws()))
def test_a_law_names_units_and_source(law):
    text = ast.get_docstring(law) or ""
    for section in SECTIONS:
        assert section in text, f"{law.name} has no section {section.strip()}"
    returns = text.split("Returns\n")[1].split("Notes\n")[0]
    assert re.search(r"\[[^\]]+\]", returns), f"{law.name} returns something without a unit"
    assert re.search(r"Source: \S+", text), f"{law.name} has no source"
    for argument in (*law.args.args, *law.args.kwonlyargs):
        assert re.search(rf"^{argument.arg} : ", text, re.MULTILINE), f"{law.name} does not explain {argument.arg}"


def test_there_are_laws_to_look_at():
    assert len(list(laws())) >= 15
