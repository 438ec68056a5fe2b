"""Requests that the planner's tests share."""

from collections.abc import Callable

import pytest

from lcplan import catalog
from lcplan.workload import Workload
from planner.filters import Filters, parse_mesh
from planner.request import SearchRequest, make_request

Ask = Callable[..., SearchRequest]


@pytest.fixture
def ask() -> Ask:
    """A request from catalogue names; keywords are fields of the request or of its filters."""

    def _ask(model: str = "llama3-8b", hw: str = "gb200-nvl72", *, seq: int = 262144, batch: int = 16, **more) -> SearchRequest:
        hardware = catalog.hardware(hw)
        filters = {name: more.pop(name) for name in list(more) if name in Filters.model_fields and name != "mesh"}
        mesh = parse_mesh(more.pop("mesh")) if "mesh" in more else {}
        data = {
            "model": catalog.model(model),
            "hardware": hardware,
            "workload": Workload(seq_len=seq, global_batch=batch),
            "budget_bytes": hardware.usable_bytes,
            "filters": Filters(mesh=mesh, **filters),
        }
        return make_request(data | more)

    return _ask
