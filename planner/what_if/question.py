"""Asking: from a request and a question to a WhatIf, with everything that the reader should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES, WorkloadKind
from planner.request.request import SearchRequest, default_tokens
from planner.request.request_changes import Ask
from planner.what_if.boundary import boundary
from planner.what_if.result import QUANTITY, Question, WhatIf
from planner.what_if.sweep import sweep
from planner.what_if.vary import QUANTITIES, Varied
from planner.workloads.registry import planned

ASKED = {"max-seq": "seq", "min-devices": "devices", "max-batch": "batch"}
"""The quantity that a boundary question finds, which it therefore cannot vary."""


def what_if(
    request: SearchRequest, question: Question, *, backends: tuple[str, ...], varied: tuple[Varied, ...] = ()
) -> WhatIf:
    """Answer ``question`` for a request whose ``devices`` is a limit.

    A boundary question without ``varied`` has one answer with its reasons; with it, one boundary per point next to the answer
    of the unchanged request.

    Raises
    ------
    BadInputError
        A sweep over nothing, or a boundary question that varies its own quantity.
    """
    _check(question, varied)
    _check_kind(request, question, varied)
    most = request.devices or request.hardware.devices
    ask = Ask(request.model_copy(update={"devices": None}), backends, most)
    answer = boundary(ask, question) if question != "sweep" else None
    points = tuple(sweep(ask, varied, question=question)) if varied else ()
    shown = answer.request if answer is not None else ask.request
    return WhatIf(question, shown, most, answer, points, notes=_notes(ask, question))


def placeholder_batch(question: Question, kind: WorkloadKind, given: Mapping[str, Any]) -> dict[str, int]:
    """Placeholder of the batch that ``max-batch`` finds, for a workload whose request needs a batch; else empty."""
    facts = WORKLOAD_TYPES[kind].facts
    name = facts.batch_field
    needed = question == "max-batch" and name in facts.needs and given.get(name) is None
    return {name: 1} if needed else {}


def _check(question: Question, varied: tuple[Varied, ...]) -> None:
    names = {one.quantity.name for one in varied}
    if question == "sweep" and not varied:
        raise BadInputError("sweep: over what? give --vary, for example --vary seq=64k..1m")
    if ASKED.get(question) in names:
        raise BadInputError(
            f"{question} finds {QUANTITY[question]}; vary something else, or use sweep --vary {ASKED[question]}=.."
        )


def _check_kind(request: SearchRequest, question: Question, varied: tuple[Varied, ...]) -> None:
    """Refuse questions and quantities that the kind of workload does not have, by name."""
    workload, kind = planned(request), request.workload.kind
    problems = [workload.refused_questions[question]] if question in workload.refused_questions else []
    known = ", ".join(name for name, quantity in QUANTITIES.items() if kind in quantity.workloads)
    for quantity in (one.quantity for one in varied):
        if kind not in quantity.workloads:
            where = " or ".join(quantity.workloads)
            problems.append(f"--vary {quantity.name} goes with --workload {where}; with {kind} vary one of {known}")
    if problems:
        raise BadInputError(problems)


def _notes(ask: Ask, question: Question) -> tuple[str, ...]:
    notes = []
    if question == "max-batch" and planned(ask.request).accumulates and not ask.request.filters.microbatches:
        notes.append(
            "max-batch counts sequences that a step holds at once (microbatches=1); gradient accumulation makes any batch "
            "fit that fits once"
        )
    if question == "max-seq" and not ask.batch_given:
        tokens = default_tokens(ask.request.hardware, ask.most_devices) / 2**20
        notes.append(f"each length is priced with its default global batch of {tokens:.4g} Mi tokens, at least one sequence")
    return tuple(notes)
