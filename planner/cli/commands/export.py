"""``lcplan export``: a plan as the files of a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError, NothingFitsError, StageFailedError
from lcplan.formats.frozen import Frozen
from planner.cli.file_plan import file_plan
from planner.cli.from_files import from_options, given_file
from planner.cli.groups import GroupedCommand
from planner.cli.options import knob_options, request_options
from planner.cli.output import print_json, print_view
from planner.export.check import CheckResult, check_export
from planner.export.folder import write_export
from planner.export.launchers import LAUNCHERS
from planner.export.own_compile import compile_export
from planner.export.python import trainer_jax
from planner.export.run import Export, export_plan
from planner.export.unfit import why_unfit
from planner.measure.targets.toolchain import probe
from planner.report.terminal.export import check_view, compile_view, export_view
from planner.request.document import SCHEMA_VERSION
from planner.run.make_plan import make_plan
from planner.trainers import all_trainers, trainer_names
from planner.trainers.common.own_compile import OwnMemory

EPILOG = """\b
Examples:
  lcplan export run/plan.yaml --to maxtext
  lcplan export run/plan.yaml --to megatron --out jobs/megatron --check --toolchain ../torch-venv/bin/python
  lcplan export run/plan.yaml --to jax --format json"""


_COMPILE = ", ".join(f"{one.name} on {one.compiles.upper()}" for one in all_trainers() if one.compiles)


class ExportOptions(Frozen):
    """Every option of the command."""

    plan: str | None
    to: str
    out: str | None
    check: bool
    compile: bool
    toolchain: str | None
    jax: str | None
    launcher: str | None
    force: bool
    output: str


@click.command("export", cls=GroupedCommand, epilog=EPILOG)
@from_options
@click.argument("plan", metavar="[PLAN]", required=False)
@request_options
@click.option("--to", "--for", "to", required=True, type=click.Choice(trainer_names()), help="Trainer that runs the plan.")
@click.option("--out", metavar="DIR", help="Folder of the files. [default: named after the trainer, next to the plan]")
@click.option("--check", is_flag=True, help="Run the trainer's own parser and validator on the files.")
@click.option("--compile", is_flag=True, help=f"Compile the trainer's own step and show its memory ({_COMPILE}).")
@click.option(
    "--toolchain", metavar="PYTHON", help="Python that has the trainer. [default: LCPLAN_<TRAINER>_PYTHON, else this one]"
)
@click.option(
    "--launcher", type=click.Choice(tuple(LAUNCHERS)), help="Also a file that starts the job: an sbatch script, or a JobSet."
)
@click.option("--jax", metavar="VERSION", help="The trainer's jax. [default: that of --toolchain, else the verified one]")
@knob_options
@click.option("--force", is_flag=True, help="Write the files of a job that does not fit the budget as the trainer runs it.")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(**options: Any) -> int:
    """Write PLAN (a plan.yaml, or the folder of a run) as files that a trainer takes as they are.

    Each deviation of the trainer from the plan is listed, with its replacement and its cost. A plan that it cannot run at
    all is bad input, and a job that does not fit as the trainer runs it is not written (exit code 1). Files that lcplan did
    not write, or that were changed since, are never overwritten. With --from-.. and no PLAN, the plan of a trainer's own
    configuration is converted; the options of a request and the knobs complete it.
    """
    parsed = ExportOptions.model_validate({name: options[name] for name in ExportOptions.model_fields})
    file, plan = _plan(parsed.plan, options)
    jax = trainer_jax(parsed.to, parsed.jax, option="--jax", python=parsed.toolchain)
    export = export_plan(plan, parsed.to, jax=jax, launcher=parsed.launcher)
    unfit = None if parsed.force else why_unfit(plan, export)
    if unfit is not None:
        _show(parsed, export, (), checked=None, compiled=None)
        raise NothingFitsError(unfit)
    folder = Path(parsed.out) if parsed.out else file.parent / parsed.to
    files = write_export(folder, export.files)
    checked = check_export(export, folder, python=parsed.toolchain) if parsed.check else None
    compiled = compile_export(export, folder, python=parsed.toolchain) if parsed.compile else None
    _show(parsed, export, files, checked=checked, compiled=compiled)
    if checked is not None and not checked.good:
        raise StageFailedError(
            f"{checked.package} {checked.version} does not take the files: {checked.said or '; '.join(checked.mismatches)}"
        )
    return 0


def _plan(plan: str | None, options: dict[str, Any]) -> tuple[Path, Plan]:
    """The plan of a file or a run, or that of a trainer's own configuration; and the file that names its folder."""
    given = given_file(options)
    if (plan is None) == (given is None):
        raise BadInputError("export takes a plan or a run, or a file of a trainer with --from-..; give one of them")
    if plan is not None:
        file = Path(plan) / "plan.yaml" if Path(plan).is_dir() else Path(plan)
        return file, Plan.load(file)
    toolchain = probe(None)
    own = file_plan({name: value for name, value in options.items() if name != "to"}, toolchain)
    refused = [f"{own.imported.file}: {reason}" for reason in own.imported.unpriced]
    if refused:
        raise BadInputError(refused)
    return Path(str(given)), make_plan(own.request, own.candidate, toolchain)


def _show(
    parsed: ExportOptions,
    export: Export,
    files: tuple[Path, ...],
    *,
    checked: CheckResult | None,
    compiled: OwnMemory | None,
) -> None:
    """Print the export in the format that is asked for."""
    if parsed.output == "json":
        print_json(_document(export, files, checked=checked, compiled=compiled))
    else:
        _print(export, files, checked=checked, compiled=compiled)


def _document(
    export: Export, files: tuple[Path, ...], *, checked: CheckResult | None, compiled: OwnMemory | None
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        **export.to_json(),
        "files": [str(file) for file in files],
        "check": checked.to_json() if checked else None,
        "train_compile": compiled.to_json() if compiled else None,
    }


def _print(export: Export, files: tuple[Path, ...], *, checked: CheckResult | None, compiled: OwnMemory | None) -> None:
    print_view(export_view(export, files))
    if checked is not None:
        print_view(check_view(checked))
    if compiled is not None:
        print_view(compile_view(compiled, ours=export.evidence.compiled, cost=export.cost))
