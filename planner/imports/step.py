"""The priced step of an imported file, and where its strategy's state is."""

from __future__ import annotations

from typing import Any

from cost_models.inputs.program import STEP, Program
from lcplan.strategy import Strategy
from planner.request.request import SearchRequest
from planner.trainers import trainer
from planner.trainers.common.imported import Imported
from planner.trainers.common.programs import priced_as

PRICED = ("sharding", "parameters", "residual-stream", "saved-activations", "loss", "gathered-weights")
"""Differences from the step of docs/step.md that the cost model of a trainer's own step includes."""


def as_run(request: SearchRequest, imported: Imported) -> SearchRequest:
    """Return the request with the priced step: the trainer's own, where the cost model covers all of it.

    On AMD GPUs a trainer may have a fused attention of its own (Transformer Engine's), which jax lacks there.
    """
    program = priced_as(imported.program, hardware=request.hardware, model=request.model)
    if request.hardware.vendor == "amd" and trainer(imported.trainer).fused_on_amd:
        program = program.model_copy(update={"attention": "flash"})
    return request.model_copy(update={"program": program})


def placed(strategy: Strategy, imported: Imported, *, program: Program = STEP) -> Strategy:
    """Return the strategy with the file's axis order, if stated, and with replicas where weights are whole."""
    changes: dict[str, Any] = {} if imported.axis_order is None else {"axis_order": imported.axis_order}
    if imported.whole_weights and program.runtime == "torch":
        mesh = strategy.mesh
        changes["mesh"] = mesh.model_copy(update={"data": mesh.data * mesh.fsdp, "fsdp": 1})
    return strategy.model_copy(update=changes) if changes else strategy
