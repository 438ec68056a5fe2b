"""Requests that the planner's tests share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from export_plans import make_plan as exported_plan
from export_plans import plans

from lcplan import catalog
from lcplan.evidence.plan import Plan
from lcplan.spec.workload import Workload
from planner.candidates.candidate import Candidate
from planner.candidates.ranking import rank
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.pool import PoolLimits
from planner.request.filters import Filters, parse_mesh
from planner.request.request import SearchRequest, make_request
from planner.run.make_plan import make_plan
from planner.run.measuring import Bench
from planner.run.run_folder import RunFolder
from planner.run.stages import Effort, search

Ask = Callable[..., SearchRequest]


@pytest.fixture(scope="session")
def named_plans() -> dict[str, Plan]:
    """Every plan that the exporters' tests share."""
    return plans()


@pytest.fixture
def new_plan() -> Callable[..., Plan]:
    """A plan by catalogue names (``export_plans.make_plan``)."""
    return exported_plan


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


@pytest.fixture
def finished_run(tmp_path, ask) -> Callable[..., Path]:
    """The folder of a search at stage modelled, written as the command writes it; ``evidence`` may add to each candidate."""

    def _finished(request: SearchRequest | None = None, *, evidence: Callable[[Candidate], Candidate] | None = None) -> Path:
        asked = request or ask("llama3-8b", "dgx-h100x2", seq=131072, batch=8, devices=16)
        result = search(Bench(asked, OFFLINE, PoolLimits(jobs=1)), Effort("modelled", 6), Silent())
        if evidence is not None:
            ranked = rank([evidence(candidate) for candidate in result.candidates], asked.objective)
            result = replace(result, candidates=tuple(ranked))
        folder = RunFolder.open(str(tmp_path / "run"), asked)
        folder.save(result.to_json(), make_plan(asked, result.winner, OFFLINE) if result.winner else None)
        return folder.path

    return _finished


class Silent:
    """A watcher that nobody watches."""

    def stage(self, name: str, total: int) -> None:
        pass

    def finished(self, candidate: Candidate) -> None:
        pass


OFFLINE = Toolchain(
    python="python",
    jax="0.10.1",
    versions={"jax": "0.10.1"},
    targets={"gpu": True, "tpu": True, "cpu": True},
    backends={"nccl": True, "nvshmem": True, "symmetric": True, "ici": True, "host": True},
)
"""A toolchain that has everything, so that what a test sees does not depend on what is installed."""
