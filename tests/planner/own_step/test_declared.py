"""Declarations of step files: read without running them, every fault named."""

import sys

import pytest
from own_steps import STEP, written

from lcplan.formats.errors import BadInputError
from planner.own_step.declared import read_declaration
from planner.own_step.expressions import Expression


def test_declaration_is_read_without_running_the_file(tmp_path):
    file = written(tmp_path, f"raise SystemExit('it ran')\n{STEP}")
    space = read_declaration(file)
    assert list(space.axes) == ["rows", "cols"]
    assert space.knobs == {"remat": ("none", "full"), "layers": (2,)}
    assert "my_step" not in sys.modules


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def build(mesh, strategy, workload): pass", "it has no LCPLAN; write for example LCPLAN = {"),
        ('LCPLAN = {"axes": {"x": "rows"}}', "it defines no build; a step file has a function build(mesh, strategy, workload)"),
        ("build = 1\nLCPLAN = dict(axes={})", ":2: LCPLAN is not a literal"),
        ("build = 1\nLCPLAN = {'axes': {}}", "my_step.py:2: LCPLAN: axes: "),
        ("build = 1\nLCPLAN = {'axis': {'x': ''}}", "unknown key 'axis'; did you mean 'axes'?"),
        (
            "build = 1\nLCPLAN = {'axes': {'x': ''}, 'knobs': {'x': [1]}}",
            "x: an axis, a knob and a number of the workload need",
        ),
        ("build = 1\nLCPLAN = {'axes': {'x': ''}, 'knobs': {'k': []}}", "knobs.k"),
        ("def build(:", ":1: not Python: "),
    ],
)
def test_faults_of_a_declaration_are_named(tmp_path, text, fault):
    with pytest.raises(BadInputError) as error:
        read_declaration(written(tmp_path, text))
    assert fault in str(error.value)


def test_missing_file_is_bad_input(tmp_path):
    with pytest.raises(BadInputError, match="No such file"):
        read_declaration(tmp_path / "none.py")


def test_expressions_have_arithmetic_and_comparisons():
    names = {"batch": 8, "rows": 4, "remat": "full", "heads": 6}
    assert Expression("batch % (rows * 2) == 0 and remat in ('full', 'dots')", where="x").value(names) is True
    assert Expression("not heads % rows == 0", where="x").value(names) is True
    assert Expression("1 < rows <= 3", where="x").value(names) is False
    assert Expression("batch // rows * 1024", where="x").value(names) == 2048


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "[x for x in y]",
        "rows ** 99999999",
        "rows.bit_length",
        "a[0]",
        "x :=",
    ],
)
def test_expressions_are_no_code(text):
    with pytest.raises(BadInputError, match=r"more than arithmetic|no expression"):
        Expression(text, where="x")


def test_expressions_refuse_what_has_no_value():
    with pytest.raises(BadInputError, match="names 'row'; did you mean 'rows'"):
        Expression("row > 1", where="x").check_names({"rows": 1})
    with pytest.raises(BadInputError, match="zero"):
        Expression("8 % rows == 0", where="x").value({"rows": 0})
    with pytest.raises(BadInputError, match="is not a number"):
        Expression("remat * 1000", where="x").value({"remat": "full"})
