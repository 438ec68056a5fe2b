"""The plan of a step of one's own."""

from __future__ import annotations

from lcplan import __version__
from lcplan.evidence.plan import Launch
from lcplan.evidence.step_plan import StepPlan
from planner.measure.step_file.job import stand_in
from planner.measure.targets.backends import devices_per_process
from planner.measure.targets.toolchain import Toolchain
from planner.own_step.candidate import StepCandidate
from planner.own_step.search import StepResult


def make_step_plan(result: StepResult, winner: StepCandidate, toolchain: Toolchain) -> StepPlan:
    """Everything that the training script needs to run the winner, and how lcplan came to it."""
    request, hardware = result.request, result.request.hardware
    like = stand_in(winner.strategy, hardware)
    per_process = devices_per_process(like, hardware)
    assert winner.compiled is not None, "a winner has a compile"
    document = winner.to_json()
    return StepPlan(
        lcplan_version=__version__,
        step=request.step,
        step_digest=result.digest,
        hardware=hardware,
        workload=request.workload,
        budget_bytes=request.budget_bytes,
        objective=request.objective,
        strategy=winner.strategy,
        estimate=document["estimate"],
        compiled=winner.compiled.model_copy(update={"execution": None}),
        environment=_environment(winner),
        launch=Launch(processes=-(-winner.strategy.devices // per_process), devices_per_process=per_process),
        toolchain=toolchain.versions,
    )


def _environment(winner: StepCandidate) -> dict[str, str]:
    """The pool's share of a GPU's memory, which leaves the communicators their own."""
    if winner.hardware.kind != "gpu" or winner.compiled is None:
        return {}
    groups = len({use.axis for use in winner.compiled.collectives})
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{winner.hardware.pool_ratio(groups):.3f}"}
