"""The plan that a search emits: strategy, evidence, flags, environment and launch shape in one file."""

from __future__ import annotations

from lcplan import __version__
from lcplan.evidence.plan import Evidence, Launch, Plan, Request
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.measure.targets.backends import devices_per_process, environment, xla_flags
from planner.measure.targets.toolchain import Toolchain
from planner.request.request import SearchRequest


def make_plan(request: SearchRequest, candidate: Candidate, toolchain: Toolchain) -> Plan:
    """Everything that a trainer needs to run ``candidate``, and how lcplan came to it."""
    strategy, hardware = candidate.strategy, request.hardware
    jax = toolchain.jax or "0"
    return Plan(
        lcplan_version=__version__,
        request=Request(
            model=request.model,
            hardware=hardware,
            workload=request.workload,
            budget_bytes=request.budget_bytes,
            objective=request.objective,
        ),
        strategy=strategy,
        evidence=Evidence(
            estimate=candidate.estimate,
            compiled=candidate.compiled,
            timed=candidate.timed,
            best_rung=candidate.best.rung,
        ),
        xla_flags=xla_flags(strategy, hardware, jax=jax),
        environment=environment(strategy, hardware, jax=jax),
        launch=launch_shape(strategy, hardware),
        toolchain=toolchain.versions,
    )


def launch_shape(strategy: Strategy, hardware: HardwareSpec) -> Launch:
    """Processes and devices a process."""
    per_process = devices_per_process(strategy, hardware)
    return Launch(processes=-(-strategy.devices // per_process), devices_per_process=per_process)
