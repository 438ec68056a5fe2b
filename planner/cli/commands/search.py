"""``lcplan search``: the main job."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from lcplan.formats.errors import EXIT_ANSWER, EXIT_NOTHING_FITS, BadInputError, StageFailedError
from planner.candidates.cost import Cost
from planner.candidates.rows import flat_row
from planner.cli.build import RequestOptions, build_request, objective_option
from planner.cli.file_plan import file_plan
from planner.cli.from_files import file_only, from_options, given_file, with_request, without_file
from planner.cli.groups import GroupedCommand
from planner.cli.options import knob_options, output_format, price_option, request_options, toolchain_option, workload_options
from planner.cli.output import print_csv, print_json, print_places, print_view, stderr_console
from planner.cli.progress import ProgressWatcher
from planner.cli.report_page import leave_report
from planner.cli.request_file import take_file, take_set
from planner.cli.steps.trainer_program import TRAINER, program_option, python_for, toolchain_for
from planner.export.python import trainer_jax
from planner.measure.engines.choose import choose_engine, follow_process_0
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.pool import PoolLimits
from planner.report.terminal.search import answer_view, search_view
from planner.request.request import Objective, SearchRequest, Stage
from planner.run.make_plan import make_plan
from planner.run.measuring import Bench
from planner.run.result import SearchResult
from planner.run.run_folder import RunFolder
from planner.run.stages import Effort, search
from planner.run.toolchain_offer import default_stage, offer
from planner.run.tune import Budget, tune
from planner.study import Store
from planner.study.location import GRACE_S, canonical_url, given_location
from planner.trainers import trainer_names
from planner.workloads.registry import planned

if TYPE_CHECKING:  # loaded with a file of a trainer only
    from planner.imports.own_plan import OwnPlan

DEFAULT_TRAINER = "maxtext"
"""Trainer of the printed command if the request names no trainer."""
EPILOG = """\b
Examples:
  lcplan search --model llama3-8b --seq 256k --hw gb200-nvl72
  lcplan search --model llama3.1-70b --seq 128k --hw dgx-h100x4 --devices 32 --stages modelled
  lcplan search --from-maxtext my_run.yml --hw v5p-64 --stages modelled
  lcplan search --model ./config.json --seq 1m --hw tpu-v5p-64 --mesh context=8..32 --format json
  lcplan search request.yaml --set seq=512k -o longer
  lcplan search --step my_step.py --seq 8k --global-batch 8 --hw dgx-h100 --knob remat=full,none"""


@dataclass(frozen=True)
class Written:
    """The files of a search; ``page`` None: it made no report."""

    folder: RunFolder
    page: Path | None


class SearchOptions(RequestOptions):
    """Every option of the command."""

    objective: Objective
    stages: Stage | None
    survivors: int
    jobs: int
    engine: str
    grace: int
    study: str | None
    out: str | None
    toolchain: str | None
    for_jax: str | None = None
    program: str | None = None
    price: float | None = None
    tune: str | None = None
    verbose: bool = False
    quiet: bool = False
    output: str


@click.command("search", cls=GroupedCommand, epilog=EPILOG)
@click.argument("request", metavar="[REQUEST]", required=False, is_eager=True, expose_value=False, callback=take_file)
@from_options
@request_options
@click.option(
    "--set",
    metavar="KEY=VALUE",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=take_set,
    help="Another value of the file REQUEST.",
)
@workload_options
@objective_option
@click.option(
    "--stages",
    type=click.Choice(get_args(Stage)),
    help="How far to go. [default: timed where such devices are here, else compiled]",
)
@click.option("--survivors", type=click.IntRange(1, 1000), default=8, show_default=True, help="Strategies to compile.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=min(2, os.cpu_count() or 1),
    show_default=True,
    help="Compiles at a time on this machine.",
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="ENGINE",
    help="Where compiles and timings run: local, dask://HOST:PORT, dask:N, parsl:FILE or processes:DEVICES.",
)
@click.option(
    "--grace",
    type=click.IntRange(0, 86400),
    default=GRACE_S,
    show_default=True,
    help="Wait this many seconds for a study's database that is away.",
)
@click.option(
    "--study",
    metavar="URL",
    envvar="LCPLAN_STUDY",
    help="Where results are kept: SQLite, journal, PostgreSQL, MySQL; or @FILE. [default: study.db in the run's folder]",
)
@click.option(
    "--for",
    "trainer",
    type=click.Choice(trainer_names()),
    help="Only strategies that this trainer runs unchanged.",
)
@click.option("--for-jax", metavar="VERSION", help="jax of that trainer. [default: that of --toolchain, else the verified one]")
@program_option
@click.option("--out", "-o", metavar="DIR", help="Folder of the run. [default: named after the request, in lcplan-runs]")
@toolchain_option
@click.option("--tune", metavar="TRIALS|MINUTES", help="Then tune knobs around the best meshes: 40 trials, or 5min.")
@click.option("--step", metavar="FILE", help="Search over the step of this Python file in place of lcplan's own.")
@click.option("--knob", multiple=True, metavar="NAME=VALUE,..", help="With --step: values of one of the file's knobs.")
@price_option
@click.option("--verbose", "-v", is_flag=True, help="Show every rule that rejects strategies, with an example.")
@click.option("--quiet", "-q", is_flag=True, help="Show the answer without progress and tables.")
@knob_options
@output_format
def command(**options: Any) -> int:
    """Find the best layout of MODEL at sequence length SEQ on HW.

    Enumerates every strategy, rejects with reasons, prices the rest, compiles the survivors' real full-size train step with
    the target's own compiler, and writes plan.yaml. You can interrupt it at any time: the same command resumes it. With
    --from-.. model, sequence, batch, hardware and devices are those of a trainer's own configuration, whose plan is shown next
    to the winner. REQUEST is a YAML file of options (seq: 256k), or the request.json of a run; options given here come first.
    """
    if options["step"] is not None:
        from planner.cli.steps.own_step import search_own_step

        if (file := given_file(options)) is not None:
            raise BadInputError(f"--step {options['step']}: the step has its own program; leave {file} out")
        if options["hw"] is None:
            raise click.UsageError("Missing option '--hw'.")
        return search_own_step(without_file(options))
    if options["knob"]:
        raise BadInputError("--knob is for the knobs of a step file; name it with --step")
    own = None if given_file(options) is None else file_plan(file_only(options), probe(options["toolchain"]))
    options = with_request(options)
    parsed = _with_jax(SearchOptions.model_validate({k: v for k, v in options.items() if k not in ("step", "knob")}))
    request = build_request(parsed, parsed.objective)
    budget = _budget(parsed, request)
    study = canonical_url(given_location(parsed.study)) if parsed.study is not None else None
    toolchain = toolchain_for(parsed, request)
    offer(toolchain, request)  # refuses a backend that is not real before a folder is made for it
    stage = parsed.stages or ("compiled" if parsed.program == TRAINER else default_stage(request))
    word = "local" if stage == "modelled" else parsed.engine
    steps = follow_process_0(word, toolchain)
    if steps is not None:
        stderr_console().print(f"{steps} steps run with process 0", highlight=False)
        return 0
    with closing(choose_engine(word, toolchain)) as engine:
        folder = RunFolder.open(parsed.out, request)
        url = study or folder.study_url
        store = None if stage == "modelled" else Store.open(url, grace_s=parsed.grace)
        limits = PoolLimits(jobs=parsed.jobs, executables=folder.executables if stage == "timed" else None)
        bench = Bench(request, toolchain, limits, store, engine)
        if parsed.program == TRAINER:
            from planner.trainer_step.bench import trainer_bench

            bench = trainer_bench(bench, str(parsed.trainer))
        effort = Effort(stage, parsed.survivors)
        watcher = ProgressWatcher(stderr_console(quiet=parsed.quiet))
        result, interrupted = _searched(bench, effort, budget, folder=folder, url=url, watcher=watcher)
    _save(result, folder, request, toolchain)
    if interrupted:
        raise KeyboardInterrupt
    page = leave_report(folder.path, parsed.price) if stage != "modelled" or parsed.out else None
    _print(result, parsed, Written(folder, page), own=own)
    return _code(result)


def _searched(
    bench: Bench, effort: Effort, budget: Budget | None, *, folder: RunFolder, url: str, watcher: ProgressWatcher
) -> tuple[SearchResult, bool]:
    """The result, tuned where there is a budget; and whether somebody interrupted the tuning."""
    with watcher:
        result = search(bench, effort, watcher)
        if budget is None:
            return result, False
        _save(result, folder, bench.request, bench.toolchain)  # what there is, should the tuning be killed
        watcher.stage("tuning", budget.trials)
        tuned = tune(bench, result.candidates, budget, stage=effort.stage, url=url, watch=watcher.tried)
        return replace(result, candidates=tuned.candidates, tuning=tuned.history), tuned.interrupted


def _code(result: SearchResult) -> int:
    """The exit code: an answer, nothing that fits, or a stage in which every compile failed for other reasons than memory."""
    if result.winner:
        return EXIT_ANSWER
    failed = [candidate.compiled.error for candidate in result.candidates if candidate.compiled and candidate.compiled.error]
    if failed and len(failed) == len(result.candidates):
        raise StageFailedError(f"every compile failed, the first with: {failed[0]}")
    return EXIT_NOTHING_FITS


def _with_jax(parsed: SearchOptions) -> SearchOptions:
    """The options with the jax that the trainer runs under."""
    if parsed.trainer is None:
        if parsed.for_jax is not None:
            raise BadInputError("--for-jax is the jax of a trainer; name the trainer with --for")
        return parsed
    jax = trainer_jax(parsed.trainer, parsed.for_jax, option="--for-jax", python=python_for(parsed))
    return parsed.model_copy(update={"trainer_jax": jax})


def _budget(parsed: SearchOptions, request: SearchRequest) -> Budget | None:
    if parsed.tune is None:
        return None
    reason = planned(request).not_tuned
    if reason is not None:
        raise BadInputError(f"--tune with --workload {parsed.kind}: {reason}")
    return Budget.parse(parsed.tune)


def _save(result: SearchResult, folder: RunFolder, request: SearchRequest, toolchain: Toolchain) -> None:
    plan = make_plan(request, result.winner, toolchain) if result.winner else None
    folder.save(result.to_json(), plan)


def _print(result: SearchResult, parsed: SearchOptions, written: Written, *, own: OwnPlan | None) -> None:
    cost = Cost.of(result.winner, result.request.hardware, parsed.price) if result.winner else None
    if parsed.output == "json":
        file = {} if own is None else {"imported": own.opinion.to_json() | {"candidate": own.candidate.to_json()}}
        print_json(result.to_json() | {"cost": cost.to_json() if cost else None} | file)
    elif parsed.output == "csv":
        print_csv([flat_row(candidate) for candidate in result.candidates])
    else:
        print_view(answer_view(result) if parsed.quiet else search_view(result, verbose=parsed.verbose))
        if own is not None:
            from planner.report.terminal.own_plan import own_plan_view

            print_view(own_plan_view(own, result.winner))
        if cost:
            print_view(cost.says)
        print_places(_places(parsed, written, winner=result.winner is not None))


def _places(parsed: SearchOptions, written: Written, *, winner: bool) -> Iterator[tuple[str, str]]:
    """The files of a search, and the commands to continue with."""
    run = shlex.quote(str(written.folder.path))
    if winner:
        yield "plan", str(written.folder.plan_file)
    if written.page is not None:
        yield "report", str(written.page)
    if winner:
        yield "next", f"lcplan explain {run}"
        yield "next", f"lcplan export {run} --to {parsed.trainer or DEFAULT_TRAINER}"
