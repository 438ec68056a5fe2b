"""An export that does not fit: the bytes that are missing, and the fastest plan for the trainer that fits."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from lcplan.formats.units import format_bytes, format_seconds
from lcplan.spec.workload import Workload
from planner.export.cost import request_of
from planner.export.run import Export
from planner.imports.advice import Change, advise
from planner.trainers.common.programs import priced_as


def why_unfit(plan: Plan, export: Export) -> str | None:
    """Return how far the job as run is over the budget, and the fastest plan that fits; None where it fits."""
    cost, name = export.cost, export.translation.trainer.name
    if cost.fits:
        return None
    over = format_bytes(cost.need_bytes - cost.budget_bytes)
    found = nearest_fit(plan, export)
    ways = [f"lcplan search --for {name} finds others", "--force writes the files"]
    if found is not None:
        step = format_seconds(found.candidate.estimate["step_s"])
        ways.insert(0, f"the fastest that fits on as many devices has {'; '.join(found.what)} (step {step})")
    need = f"{format_bytes(cost.need_bytes)} of {format_bytes(cost.budget_bytes)} per device, {over} over"
    return f"{name}: the plan as it runs needs {need}; no file was written: {'; '.join(ways)}"


def nearest_fit(plan: Plan, export: Export) -> Change | None:
    """Find the fastest strategy that the trainer runs within the budget, on as many devices; None if nothing fits."""
    if not isinstance(plan.request.workload, Workload):
        return None
    request, target = request_of(plan), export.translation.trainer
    program = priced_as(target.program, hardware=request.hardware, model=request.model)
    own = request.model_copy(update={"program": program})
    return advise(own, export.cost.run, trainer=target, fits=False).best
