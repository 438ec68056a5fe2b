"""Plans over the budget by less than the half-width of their memory: the cost model says no, and a compile decides."""

from dataclasses import dataclass

import pytest

from lcplan.evidence.measurement import Compiled
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.pool import PoolLimits
from planner.run.measuring import Bench
from planner.run.stages import Effort, search

TOOLCHAIN = Toolchain(python="python", jax="0.10.1", versions={}, targets={"h100": True}, backends={"nccl": True})
SURVIVORS = 3


@dataclass(frozen=True)
class StandIn(Bench):
    """A compiler that says ``ratio`` of the modelled memory."""

    ratio: float = 1.0
    rung: str = "compiled:target"

    def compile(self, candidates):
        for candidate in candidates:
            total = int(candidate.estimate["memory_bytes"]["total"] * self.ratio)
            compiled = Compiled(rung=self.rung, target="h100", jax="0.10.1", finished_at="", compile_s=1.0, total_bytes=total)
            yield candidate.with_compiled(compiled, self.request.budget_bytes)


class Silent:
    def stage(self, name, total):
        pass

    def finished(self, candidate):
        pass


def searched(request, stage="compiled", **compiler):
    return search(StandIn(request, TOOLCHAIN, PoolLimits(jobs=1), **compiler), Effort(stage, SURVIVORS), Silent())


@pytest.fixture
def request_of(ask):
    return lambda **more: ask("llama3-8b", "dgx-h100", seq=65536, batch=8, devices=8, backend=("nccl",), **more)


@pytest.fixture
def tight(request_of):
    """A request whose fastest plan is 2 % over the budget, and that plan."""
    fastest = searched(request_of(budget_bytes=2**40), "modelled").winner
    need = fastest.estimate["memory_bytes"]["total"] + fastest.estimate["allowance_bytes"]
    return request_of(budget_bytes=int(need / 1.02)), fastest.strategy


def test_a_faster_plan_within_the_half_width_is_compiled_and_can_win(tight):
    request, plan = tight
    modelled = searched(request, "modelled")
    assert plan not in [candidate.strategy for candidate in modelled.candidates]
    found = searched(request, ratio=0.95)
    assert found.winner.strategy == plan
    assert not found.winner.estimate["fits"]
    assert found.winner.best.fits
    assert found.counts.survivors == SURVIVORS


def test_it_stays_a_row_that_does_not_fit_where_the_compiler_agrees(tight):
    request, plan = tight
    found = searched(request, ratio=1.0)
    row = next(candidate for candidate in found.candidates if candidate.strategy == plan)
    assert not row.best.fits
    assert found.winner.strategy != plan
    assert found.counts.survivors == SURVIVORS


def test_a_compile_for_the_host_decides_nothing(tight):
    request, plan = tight
    assert searched(request, ratio=0.5, rung="compiled:host").winner.strategy != plan


@pytest.fixture
def over(request_of):
    """A request of one mesh and policy, of which all plans are over the budget, the smallest by 1 %."""
    only = {"mesh": "context=8", "remat": ("save-attention",), "scheme": ("ulysses",), "microbatches": (8,)}
    needs = [
        candidate.estimate["memory_bytes"]["total"] + candidate.estimate["allowance_bytes"]
        for candidate in searched(request_of(**only), "modelled").candidates
    ]
    return request_of(**only, budget_bytes=int(min(needs) / 1.01))


def test_where_nothing_fits_by_the_cost_model_a_compiled_plan_wins(over):
    assert searched(over, "modelled").winner is None
    found = searched(over, ratio=0.95)
    assert found.winner.compiled.fits
    assert found.counts.over_budget == found.counts.estimated


def test_where_the_compiler_agrees_nothing_fits(over):
    found = searched(over, ratio=1.0)
    assert found.winner is None
    assert found.nearest_miss is not None


def test_further_over_than_the_half_width_nothing_is_compiled(over):
    far = over.model_copy(update={"budget_bytes": int(over.budget_bytes * 0.8)})
    assert searched(far, ratio=0.1).candidates == ()
