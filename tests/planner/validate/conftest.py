import sys
from pathlib import Path

import pytest

from planner.validate.run import validate
from planner.validate.sources.bundled import find_table, table_names

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def results():
    """Every bundled table, validated."""
    found = [find_table(name) for name in table_names()]
    return [validate(table, path.parent) for table, path in found]
