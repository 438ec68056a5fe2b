"""The plan as each trainer's files, for the page's copy buttons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import LcplanError
from planner.export.run import export_plan
from planner.trainers import trainer_names


@dataclass(frozen=True)
class TrainerFiles:
    """The files that ``lcplan export`` would write for one trainer, or why that trainer cannot run the plan."""

    name: str
    files: dict[str, str]
    launch: str
    refused: str = ""


def trainer_files(plan_file: Path) -> tuple[TrainerFiles, ...]:
    """Every trainer in the order in which the command lists them."""
    plan = Plan.load(plan_file)
    return tuple(_of(plan, name) for name in trainer_names())


def _of(plan: Plan, name: str) -> TrainerFiles:
    try:
        export = export_plan(plan, name)
    except LcplanError as error:
        return TrainerFiles(name, {}, "", refused=str(error).removeprefix(f"{name}: "))
    files = {file: text for file, text in export.files.items() if file != "plan.yaml"}
    return TrainerFiles(name, files, export.launch.line)
