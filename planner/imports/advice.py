"""Changes that lcplan proposes to a running configuration: single changes, and the best of all, for the same trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import CODES, StrategyTable
from lcplan.spec.workload import Workload
from lcplan.strategy import AXES, Strategy
from planner.candidates.candidate import Candidate
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.space.analysis import Analysis
from planner.trainers import Job, Trainer
from planner.trainers.common.restrict import restrict
from planner.workloads.points import analyse

WORTH_SAYING = 0.02
"""Gains below this share of a step are within the cost model's resolution."""
LOOKED_AT = 200
"""Number of candidates to check against the trainer's further needs before giving up."""
KNOBS = ("scheme", "remat", "microbatches", "loss_chunk_tokens", "axis_order")


@dataclass(frozen=True)
class Change:
    """Another strategy for the same job, and its differences."""

    what: tuple[str, ...]
    candidate: Candidate
    need_bytes: int | None = None
    """Memory of the changed file with its allowance, as its own importer prices it; None: not read again."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The changed settings by the file's own keys, the section before a dot; None: without the setting."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``lcplan estimate`` that express a change of the training script."""
    unpriced: bool = False
    """Whether it sends state to the host, whose transfer is not in the step time."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        changed = {"settings": dict(self.settings), "options": {name: values[0] for name, values in self.options.items()}}
        return {"change": list(self.what), **changed, "need_bytes": self.need_bytes, "candidate": self.candidate.to_json()}


@dataclass(frozen=True)
class Advice:
    """The best strategy for the trainer on these devices, and the best change of one thing at a time."""

    best: Change | None
    single: tuple[Change, ...]
    why_none: tuple[str, ...] = ()
    """Reason for not searching: the part of the model that lcplan does not write for the trainer."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "best": self.best.to_json() if self.best else None,
            "single": [change.to_json() for change in self.single],
            "why_none": list(self.why_none),
        }


def advise(request: SearchRequest, current: Candidate, *, trainer: Trainer, fits: bool) -> Advice:
    """Find faster strategies, or fitting ones if the current strategy does not fit.

    Parameters
    ----------
    request
        Model, workload, hardware and budget of the configuration.
    current
        Its strategy, priced.
    trainer
        Only strategies that this trainer runs unchanged are candidates.
    fits
        Whether the configuration fits, the trainer's own further needs counted.
    """
    unwritten = trainer.refusals(request.hardware, request.model)
    if unwritten:
        return Advice(None, (), tuple(unwritten))
    filters = restrict(Filters(), trainer, hardware=request.hardware, model=request.model)
    changed = {"filters": filters, "devices": current.strategy.devices, "trainer": trainer.name}
    program = request.program.model_copy(update={"saved": None} | ({} if trainer.whole_loss else {"loss": "chunked"}))
    wider = SearchRequest.model_validate(request.model_copy(update=changed).model_dump() | {"program": program})
    analysis = analyse(wider, (current.strategy.backend,))
    limit = current.estimate["step_s"] * (1 - WORTH_SAYING) if fits else np.inf
    best = _best(analysis, trainer, rows=np.arange(len(analysis.table)), limit=limit)
    whole = program.loss == "whole"
    different = _different(analysis.table, current.strategy)
    single = []
    for name, mask in different.items():
        others = sum(column for other, column in different.items() if other != name)
        rows = np.flatnonzero(mask & (others == 0))
        found = _best(analysis, trainer, rows=rows, limit=limit)
        single += [Change(_changes(current.strategy, found.strategy, whole_loss=whole), found)] if found else []
    single.sort(key=lambda change: change.candidate.estimate["step_s"])
    together = Change(_changes(current.strategy, best.strategy, whole_loss=whole), best) if best else None
    return Advice(together, tuple(change for change in single if together is None or change.candidate != together.candidate))


def _different(table: StrategyTable, strategy: Strategy) -> dict[str, NDArray[np.int64]]:
    """Mark the rows that differ from the strategy in the mesh or in a knob, shape [n] each.

    The loss chunk goes with the mesh and is not counted.
    """
    mesh = np.any([getattr(table, axis) != getattr(strategy.mesh, axis) for axis in AXES], axis=0)
    columns = {"mesh": mesh.astype(np.int64)}
    for name in (name for name in KNOBS if name != "loss_chunk_tokens"):
        value = getattr(strategy, name)
        wanted = CODES[name].index(value) if name in CODES else value
        unlike = getattr(table, name) != wanted
        if name == "scheme":
            unlike &= table.context > 1
        columns[name] = unlike.astype(np.int64)
    return columns


def _best(analysis: Analysis, trainer: Trainer, *, rows: NDArray[np.int64], limit: float) -> Candidate | None:
    """Return the fastest of ``rows`` below ``limit`` [s] that fits with the trainer's needs beyond the cost model."""
    step = analysis.estimates.step_s[rows]
    inside = rows[analysis.estimates.fits[rows] & (step < limit)]
    order = inside[np.argsort(analysis.estimates.step_s[inside], kind="stable")]
    return next(_fitting(analysis, trainer, rows=islice((int(row) for row in order), LOOKED_AT)), None)


def _fitting(analysis: Analysis, trainer: Trainer, *, rows: Iterator[int]) -> Iterator[Candidate]:
    setting = analysis.setting
    assert isinstance(setting.workload, Workload), "a trainer's file describes a train step"
    for row in rows:
        candidate = analysis.candidate(row)
        job = Job(setting.model, setting.hardware, setting.workload, candidate.strategy)
        extra = 0 if analysis.setting.program.runtime == "torch" else sum(d.extra_bytes for d in trainer.extras(job))
        estimate = candidate.estimate
        if estimate["memory_bytes"]["total"] + estimate["allowance_bytes"] + extra <= setting.budget_bytes:
            yield candidate


def _changes(old: Strategy, new: Strategy, *, whole_loss: bool) -> tuple[str, ...]:
    found = [f"mesh {old.mesh.label} -> {new.mesh.label}"] if old.mesh != new.mesh else []
    for name in KNOBS:
        before, after = getattr(old, name), getattr(new, name)
        idle = (name == "scheme" and new.mesh.context == 1) or (name == "loss_chunk_tokens" and whole_loss)
        if before != after and not idle:
            words = (
                ("axis order " + ",".join(before), ",".join(after))
                if name == "axis_order"
                else (f"{name} {before}", str(after))
            )
            new_scheme = name == "scheme" and old.mesh.context == 1  # there was none to change
            found.append(f"scheme {after}" if new_scheme else " -> ".join(words))
    return tuple(found)
