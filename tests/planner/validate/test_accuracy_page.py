"""docs/accuracy.md is what the tables give now."""

from pathlib import Path

from planner.validate.bundled import find_table, table_names
from planner.validate.page import accuracy_page
from planner.validate.run import validate

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"


def test_the_page_is_not_stale():
    found = [find_table(name) for name in table_names()]
    made = accuracy_page([validate(table, path.parent) for table, path in found])
    assert PAGE.read_text() == made, "make it anew: lcplan validate --page docs/accuracy.md"
