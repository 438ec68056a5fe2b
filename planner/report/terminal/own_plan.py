"""The plan of a file next to the winner of a search."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import format_seconds
from planner.candidates.candidate import Candidate
from planner.imports.own_plan import OwnPlan
from planner.report.terminal.estimate import speed, verdict


def own_plan_view(plan: OwnPlan, winner: Candidate | None) -> Group:
    """The file's plan, its verdict, and its step against the winner's."""
    return Group(*_lines(plan, winner))


def _lines(plan: OwnPlan, winner: Candidate | None) -> Iterator[RenderableType]:
    yield Text(f"\nThe plan of {plan.imported.file}", style="bold")
    yield Text(plan.candidate.strategy.label)
    yield verdict(plan.candidate, plan.request)
    yield speed(plan.candidate)
    for note in plan.imported.notes:
        yield Text(f"note: {note}", style="yellow")
    for refusal in plan.opinion.refusals:
        yield Text(f"refused by the trainer: {refusal}", style="red")
    if winner is not None:
        own, best = plan.candidate.best.step_s, winner.best.step_s
        yield Text(f"the winner's step takes {format_seconds(best)}, the file's {format_seconds(own)} ({own / best - 1:+.1%})")
