"""docs/tables.md: its table validates, and it names every field, choice, reason and trainer that there is."""

import doctest
import re
from pathlib import Path
from typing import get_args

import pytest

from cost_models.inputs.program import PROGRAMS
from planner.validate.choices import OPTIONS
from planner.validate.sources.excuse import Reason
from planner.validate.sources.table import Measured, MemoryFigure, Part, Row, RowMesh, RowStrategy, RowWorkload

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
TEXT = PAGE.read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_example_validates_as_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my-runs.yaml").write_text(blocks("yaml")[0])
    test = doctest.DocTestParser().get_doctest("\n".join(blocks("pycon")), {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out
    assert runner.tries > 0


@pytest.mark.parametrize("model", [Row, RowMesh, RowStrategy, RowWorkload, Measured], ids=lambda model: model.__name__)
def test_every_field_is_named(model):
    assert [name for name in model.model_fields if not re.search(rf"\b{name}\b", TEXT)] == []


@pytest.mark.parametrize("names", [get_args(Part), get_args(Reason), get_args(MemoryFigure), tuple(OPTIONS), tuple(PROGRAMS)])
def test_every_name_is_explained(names):
    missing = [name for name in names if f"`{name}`" not in TEXT and name != "mesh"]
    assert missing == []
