"""``lcplan search --step FILE``: the options that go with it, and its run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from rich.console import Console

from lcplan.formats.errors import EXIT_ANSWER, EXIT_NOTHING_FITS, BadInputError, StageFailedError
from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import KNOBS
from planner.cli.output import print_json, print_view, stderr_console
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.own_step.candidate import StepCandidate
from planner.own_step.make_plan import make_step_plan
from planner.own_step.request import StepOptions, build_step_request
from planner.own_step.search import StepBench, StepResult, search_steps
from planner.own_step.space import Points
from planner.run.run_folder import RunFolder
from planner.study import Store
from planner.study.location import canonical_url, given_location

_NOT_WITH: Mapping[str, str] = {
    "model": "the step file has its own model",
    "document_len": "give the number in LCPLAN's workload",
    "trainer": "the step file is the program",
    "program": "the step file is the program",
    "tune": "give more --survivors: every combination of knobs is in the search",
    "prompt": "the step file has its own workload",
    "generate": "the step file has its own workload",
    "batch": "the step file has its own workload",
}
"""Options of a search over lcplan's own step, and the reason why they do not go with ``--step``."""


class StepProgress:
    """One line for each compile, on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def found(self, points: Points) -> None:
        """Print the number of strategies."""
        self._console.print(f"{len(points.allowed):,} strategies to compile from", style="dim", highlight=False)

    def finished(self, candidate: StepCandidate) -> None:
        """Print the outcome of a compile."""
        self._console.print(f"compiled: {_line(candidate)}", highlight=False, soft_wrap=True)


def _line(one: StepCandidate) -> str:
    compiled = one.compiled
    if compiled is None or compiled.error:
        return f"{one.strategy.label}: failed: {compiled.error if compiled else 'no result'}"
    fit = "" if one.fits else ", over budget"
    step = f", {format_seconds(one.step_s)} a step" if one.step_s is not None else ""
    return f"{one.strategy.label}: {format_bytes(compiled.total_bytes or 0)}{fit}{step}, compiled in {compiled.compile_s:.1f} s"


def search_own_step(options: Mapping[str, Any]) -> int:
    """Run the search and return the exit code.

    Raises
    ------
    BadInputError
        An option that does not go with ``--step``, or a step file without a declaration.
    """
    _refuse(options)
    asked = {name: options.get(name) for name in StepOptions.model_fields if options.get(name) is not None}
    request = build_step_request(StepOptions.model_validate(asked))
    study = canonical_url(given_location(options["study"])) if options.get("study") is not None else None
    toolchain = probe(options.get("toolchain"))
    folder = RunFolder.open(options.get("out"), request)
    store = Store.open(study or folder.study_url, grace_s=options["grace"])
    with closing(store):
        bench = StepBench(request, request.file, toolchain, PoolLimits(jobs=options["jobs"]), store)
        result = search_steps(bench, options["survivors"], StepProgress(stderr_console()))
    plan = make_step_plan(result, result.winner, toolchain) if result.winner else None
    folder.save(result.to_json(), plan)
    if options["output"] == "json":
        print_json(result.to_json())
    else:
        print_view(step_view_of(result))
        if plan is not None:
            print_view(f"\nplan: {folder.plan_file}")
    return _code(result)


def step_view_of(result: StepResult) -> Any:
    """The view of a result; its module is loaded only where it is shown."""
    from planner.report.terminal.steps.own_step import step_view

    return step_view(result)


def _code(result: StepResult) -> int:
    """The exit code: an answer, nothing that fits, or a stage in which every compile failed."""
    if result.winner:
        return EXIT_ANSWER
    failed = [one.compiled.error for one in result.candidates if one.compiled is not None and one.compiled.error]
    if failed and len(failed) == len(result.candidates):
        raise StageFailedError(f"every compile failed, the first with: {failed[0]}")
    return EXIT_NOTHING_FITS


def _refuse(options: Mapping[str, Any]) -> None:
    problems = [
        f"--{_dashed(name)} does not go with --step: {why}"
        for name, why in _NOT_WITH.items()
        if options.get(name) not in (None, ())
    ]
    for name, knob in KNOBS.items():
        if options.get(name):
            value = options[name][0]
            problems.append(f"{knob.option} is a knob of lcplan's own step; of a step file write --knob {name}={value}")
    if options.get("kind", "train") != "train":
        problems.append("--workload does not go with --step: the step file is the program")
    if options.get("stages") not in (None, "compiled"):
        problems.append(
            f"--stages {options['stages']}: a step file is compiled; there is no model of it, and lcplan does not run it"
        )
    if options.get("engine", "local") != "local":
        problems.append(f"--engine {options['engine']}: workers of other machines run no files of users; use --engine local")
    if options.get("output") == "csv":
        problems.append("--format csv does not go with --step; use json")
    if problems:
        raise BadInputError(problems)


def _dashed(name: str) -> str:
    return {"trainer": "for"}.get(name, name.replace("_", "-"))
