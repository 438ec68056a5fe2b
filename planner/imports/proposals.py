"""Strategies of a changed file in the order of their step time, as the cost model prices them without the file's own needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.inputs.layout import Floats
from cost_models.memory.pytorch import RESERVED_OF_ALLOCATED
from lcplan.strategy import AXES, Strategy
from planner.imports.step import PRICED
from planner.imports.trials import Question, Setup
from planner.request.filters import AxisFilter, Filters
from planner.request.request import SearchRequest
from planner.rules.interface import Mask
from planner.space.analysis import Analysis
from planner.trainers import trainer
from planner.workloads.points import analyse

LOOKED_AT = 4000
"""Most rows whose file's own needs are counted."""
OPEN = ("remat", "microbatches", "scheme", "ulysses", "loss_chunk_tokens")
"""Knobs that a proposal chooses."""


def proposals(question: Question, setup: Setup, *, below_s: float) -> Iterator[Strategy]:
    """Yield the strategies that may fit, the fastest first.

    Parameters
    ----------
    question
        The file as it is.
    setup
        The changed file.
    below_s
        Longest step [s].
    """
    analysis = analyse(_request(question, setup), (question.current.strategy.backend,))
    if not len(analysis.table):
        return
    estimates = analysis.estimates
    need = estimates.total_bytes + estimates.allowance_bytes
    state: Floats = sum((estimates.memory_bytes[name] for name in ("params", "optimizer", "grads")), np.zeros(len(need)))
    possible = (need - state <= question.request.budget_bytes) & (estimates.step_s < below_s)
    rows = np.flatnonzero(possible & ~_ruled_out(analysis, setup))
    order = rows[np.argsort(estimates.step_s[rows], kind="stable")][:LOOKED_AT]
    yield from _fitting(question, setup, analysis=analysis, rows=[int(row) for row in order])


def _request(question: Question, setup: Setup) -> SearchRequest:
    form, imported, request = question.form, setup.imported, setup.request
    fixed = dict(form.axes(imported))
    schemes = form.schemes(imported)
    if not schemes:
        fixed["context"] = 1
    if request.model.experts is not None:
        fixed = question.current.strategy.mesh.model_dump()
    mesh = {axis: AxisFilter(intervals=((size, size),)) for axis, size in fixed.items() if axis in AXES}
    knobs = {name: values for name, values in setup.knobs.items() if name not in OPEN}
    if "loss_chunk_tokens" in setup.knobs and _chunks_given(question, setup):
        knobs["loss_chunk_tokens"] = setup.knobs["loss_chunk_tokens"]
    filters = Filters.model_validate({"mesh": mesh, "scheme": schemes, "remat": form.remats(imported), **knobs})
    changed = {"filters": filters, "devices": question.current.strategy.devices, "trainer": None}
    return request.model_copy(update=changed)


def _chunks_given(question: Question, setup: Setup) -> bool:
    """Whether the command line states the chunk of the loss, or a switch does."""
    return "loss_chunk_tokens" in question.given or "loss_chunk_tokens" in setup.options


def _ruled_out(analysis: Analysis, setup: Setup) -> Mask:
    """Mark the rows that break a rule of the trainer."""
    setting, table = analysis.setting, analysis.table
    rules = [rule for rule in trainer(setup.imported.trainer).rules if rule.name not in setup.imported.waives]
    broken = np.zeros(len(table), dtype=np.bool_)
    for rule in rules:
        broken |= np.asarray(rule.broken(setting, table))
    order = setup.imported.axis_order
    return broken | (table.axis_order != 0) if order is None else broken


def _fitting(question: Question, setup: Setup, *, analysis: Analysis, rows: list[int]) -> Iterator[Strategy]:
    """Yield the rows that fit with the file's own needs; these are counted once for each mesh, batch and policy."""
    table, estimates = analysis.table, analysis.estimates
    columns = np.stack([*(getattr(table, axis) for axis in AXES), table.microbatches, table.remat])
    extra: dict[tuple[int, ...], int] = {}
    seen: set[tuple[int, ...]] = set()
    torch = setup.request.program.runtime == "torch"
    pool = RESERVED_OF_ALLOCATED if torch else 1.0
    whole = setup.imported.program.loss == "whole"
    for row in rows:
        key = tuple(int(value) for value in columns[:, row])
        once = (*key, int(table.scheme[row]))
        if whole and once in seen:
            continue
        seen.add(once)
        if key not in extra:
            found = question.form.differences(setup.imported, question.job_of(table.strategy(row)))
            extra[key] = sum(one.extra_bytes for one in found if not (torch and one.name in PRICED))
        need = float(estimates.total_bytes[row] + estimates.allowance_bytes[row]) + pool * extra[key]
        if need <= question.request.budget_bytes:
            yield table.strategy(row)
