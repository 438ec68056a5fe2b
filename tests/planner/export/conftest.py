"""Plans by name, as values that tests may change."""

from collections.abc import Callable

import pytest
from export_plans import make_plan, plans

from lcplan.evidence.plan import Plan


@pytest.fixture(scope="session")
def named_plans() -> dict[str, Plan]:
    """Every shared plan."""
    return plans()


@pytest.fixture
def new_plan() -> Callable[..., Plan]:
    """``make_plan`` itself."""
    return make_plan
