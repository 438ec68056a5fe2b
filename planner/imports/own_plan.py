"""The plan that an imported file describes: its strategy, priced and judged as its trainer runs it."""

from __future__ import annotations

from dataclasses import dataclass

from lcplan.formats.errors import BadInputError
from planner.candidates.candidate import Candidate
from planner.imports.estimate import Opinion, judged, refused_too
from planner.imports.step import as_run, placed
from planner.imports.verdict import of_the_file
from planner.request.request import SearchRequest
from planner.space.one_strategy import BrokenRulesError
from planner.trainers.common.imported import Imported
from planner.workloads.one_strategy import resolve_strategies
from planner.workloads.pricing import price


@dataclass(frozen=True)
class OwnPlan:
    """A file's strategy at one workload, with its verdict."""

    imported: Imported
    request: SearchRequest
    """Its program is the trainer's."""
    candidate: Candidate
    opinion: Opinion


def own_plan(request: SearchRequest, imported: Imported, backends: tuple[str, ...]) -> OwnPlan:
    """Price the strategy that a file names.

    Raises
    ------
    BadInputError
        The strategy breaks rules, or an option names several values.
    """
    run = as_run(request, imported)
    try:
        strategies = resolve_strategies(run, backends)
    except BrokenRulesError as error:
        raise BadInputError([*error.problems, *refused_too(imported, request=run, strategy=error.strategy)]) from None
    if len(strategies) > 1:
        raise BadInputError(f"{imported.file} has one plan; give one value of --sharding-mode and --scheduler")
    candidate = price(run, placed(strategies[0], imported, program=run.program))
    found = judged(imported, request=run, candidate=candidate)
    return OwnPlan(imported, run, of_the_file(candidate, found, request=run), found)
