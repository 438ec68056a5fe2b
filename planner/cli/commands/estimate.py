"""``lcplan estimate``: one strategy, priced, and on request compiled for the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.scratch import scratch_folder
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.candidates.rows import flat_row
from planner.cli.build import RequestOptions, build_request
from planner.cli.from_files import from_options, with_file
from planner.cli.groups import GroupedCommand
from planner.cli.options import knob_options, output_format, request_options, toolchain_option, workload_options
from planner.cli.output import print_csv, print_json, print_view
from planner.cli.steps.own_program import own_program
from planner.cli.steps.trainer_program import program_option
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.request.document import SCHEMA_VERSION, request_json
from planner.request.request import SearchRequest
from planner.run.measuring import Bench
from planner.run.pace import pace_notes
from planner.run.timed_slice import says
from planner.run.toolchain_offer import Offer, offer
from planner.space.one_strategy import BrokenRulesError
from planner.trainers.common.imported import Imported
from planner.workloads.one_strategy import resolve_strategies
from planner.workloads.pricing import price

if TYPE_CHECKING:  # loaded where they are needed: most estimates are of no imported file
    from planner.imports.estimate import Opinion

EPILOG = """\b
Examples:
  lcplan estimate --model llama3-8b --seq 256k --hw gb200-nvl72 --mesh context=16,tensor=2
  lcplan estimate --model llama3-8b --seq 256k --hw gb200-nvl72 --mesh context=16,tensor=2 --compile --format json
  lcplan estimate --model llama3-8b --seq 256k --hw gb200-nvl72 --mesh context=16,tensor=2 --sharding-mode auto,manual --compile
  lcplan estimate --from-maxtext my_run.yml --hw gb200-nvl72"""


class EstimateOptions(RequestOptions):
    """Every option of the command."""

    compile: bool
    time: bool
    slice: bool
    toolchain: str | None
    program: str | None = None
    output: str


@click.command("estimate", cls=GroupedCommand, epilog=EPILOG)
@from_options
@request_options
@workload_options
@click.option("--compile", is_flag=True, help="Compile the real step for the target and show its memory and collectives.")
@click.option("--time", is_flag=True, help="Time the step on the devices at hand: whole where they are enough, else a slice.")
@click.option("--slice", is_flag=True, help="Time one rank of the step, on one device of its kind at hand.")
@program_option
@toolchain_option
@knob_options
@output_format
def command(**options: Any) -> int:
    """Price one strategy: the one that --mesh and the knobs name.

    Several values of --sharding-mode or --scheduler are compared side by side.
    Axes that --mesh does not name are 1. A strategy that does not fit is an answer too: fits is false, the exit code 0.
    With --from-.. the strategy, model and workload come from a trainer's own configuration, as far as it states them.
    Below, lcplan lists the trainer's needs beyond the cost model and the changes that it proposes.
    """
    merged, imported = with_file(options)
    parsed = EstimateOptions.model_validate(merged)
    request = _as_run(build_request(parsed), imported)
    own = own_program(parsed, request, imported)
    toolchain = own.toolchain or probe(parsed.toolchain)
    offered = offer(toolchain, request)
    strategies = _strategies(request, offered, imported)
    candidates = [price(request, one) for one in strategies]
    with scratch_folder() as scratch:
        bench = own.bench(Bench(request, toolchain, PoolLimits(jobs=1, executables=scratch if parsed.time else None)))
        candidates = [_measured(candidate, bench, parsed) for candidate in candidates]
    sliced = [one.timed for one in candidates if one.timed is not None and one.timed.rank_s is not None]
    slow = pace_notes(request, name=imported.trainer if imported else None, step_s=candidates[0].estimate["step_s"])
    notes = (
        *request.warnings,
        *offered.notes,
        *(says(timed) for timed in sliced),
        *_other_step(request, parsed),
        *own.notes,
        *bench.notes,
        *slow,
    )
    if len(candidates) > 1:
        said = (*imported.notes, *imported.unpriced) if imported else ()
        _print_several(_as_judged(candidates, request, imported), request, output=parsed.output, notes=(*notes, *said))
    else:
        _print(candidates[0], request, output=parsed.output, notes=notes, imported=imported)
    _raise_failures(candidates)
    return 0


def _as_run(request: SearchRequest, imported: Imported | None) -> SearchRequest:
    """Return the request with the priced step of an imported file."""
    if imported is None:
        return request
    from planner.imports.step import as_run

    return as_run(request, imported)


def _other_step(request: SearchRequest, parsed: EstimateOptions) -> tuple[str, ...]:
    """Note which step is compiled or timed for a PyTorch trainer's file."""
    measured = parsed.compile or parsed.time or parsed.slice
    if request.program.runtime != "torch" or not measured:
        return ()
    return ("the compiled or timed step is lcplan's own in JAX; the cost model prices the trainer's",)


def _strategies(request: SearchRequest, offered: Offer, imported: Imported | None) -> tuple[Strategy, ...]:
    """Return the strategies asked for; add the importer's refusals to an error about broken rules."""
    if imported is None:
        return resolve_strategies(request, offered.backends)
    from planner.imports.estimate import refused_too
    from planner.imports.step import placed

    try:
        found = resolve_strategies(request, offered.backends)
        return tuple(placed(one, imported, program=request.program) for one in found)
    except BrokenRulesError as error:
        raise BadInputError([*error.problems, *refused_too(imported, request=request, strategy=error.strategy)]) from None


def _measured(candidate: Candidate, bench: Bench, parsed: EstimateOptions) -> Candidate:
    enough = devices_at_hand(bench.request.hardware) >= candidate.strategy.devices
    sliced = parsed.slice or (parsed.time and not enough)  # a cluster is not at hand; one device of it may be
    if sliced:
        bench.check_slice()  # before minutes go into a compile
    if parsed.compile or (parsed.time and not parsed.slice):
        candidate = next(bench.compile([candidate]))
    if not (parsed.time or parsed.slice) or not candidate.usable:
        return candidate
    return next(bench.time_slices([candidate]) if sliced else bench.time([candidate]))


def _raise_failures(candidates: list[Candidate]) -> None:
    failed = [any(one is not None and one.error for one in (candidate.compiled, candidate.timed)) for candidate in candidates]
    if not any(failed):
        return
    from planner.report.terminal.compare import ways

    errors = [
        (name, evidence.error)
        for name, candidate in zip(ways(candidates), candidates, strict=True)
        for evidence in (candidate.compiled, candidate.timed)
        if evidence is not None and evidence.error
    ]
    named = [f"{name}: {error}" if len(candidates) > 1 else str(error) for name, error in errors]
    raise StageFailedError(f"the step could not be measured: {'; '.join(named)}")


def _print_several(candidates: list[Candidate], request: SearchRequest, *, output: str, notes: tuple[str, ...]) -> None:
    """Print several ways to compile one strategy: a list in the document, a row each in CSV, a column each in the table."""
    if output == "json":
        shown = {"candidates": [candidate.to_json() for candidate in candidates]}
        document = {"schema_version": SCHEMA_VERSION, "request": request_json(request)}
        print_json(document | shown | {"notes": list(notes)})
    elif output == "csv":
        print_csv([flat_row(candidate) for candidate in candidates])
    else:
        from planner.report.terminal.compare import comparison_view

        print_view(comparison_view(candidates, request, notes))


def _print(
    candidate: Candidate, request: SearchRequest, *, output: str, notes: tuple[str, ...], imported: Imported | None
) -> None:
    thought = _opinion(imported, request=request, candidate=candidate) if imported else None
    candidate = _of_the_file(candidate, thought, request=request)
    if output == "json":
        document = {"schema_version": SCHEMA_VERSION, "request": request_json(request), "candidate": candidate.to_json()}
        print_json(document | {"notes": list(notes)} | ({"imported": thought.to_json()} if thought else {}))
    elif output == "csv":
        print_csv([flat_row(candidate)])
    else:
        from planner.report.terminal.estimate import estimate_view

        print_view(estimate_view(candidate, request, notes))
        if thought is not None:
            from planner.report.terminal.imported import opinion_view

            print_view(opinion_view(thought, candidate=candidate, request=request))


def _as_judged(candidates: list[Candidate], request: SearchRequest, imported: Imported | None) -> list[Candidate]:
    """Return the candidates with the verdict of an imported file, each way to compile its step by itself."""
    if imported is None:
        return candidates
    from planner.imports.estimate import judged

    return [_of_the_file(one, judged(imported, request=request, candidate=one), request=request) for one in candidates]


def _of_the_file(candidate: Candidate, thought: Opinion | None, *, request: SearchRequest) -> Candidate:
    """Return the candidate with the verdict of an imported file; unchanged without a file."""
    if thought is None:
        return candidate
    from planner.imports.verdict import of_the_file

    return of_the_file(candidate, thought, request=request)


def _opinion(imported: Imported, *, request: SearchRequest, candidate: Candidate) -> Opinion:
    from planner.imports.estimate import opinion

    return opinion(imported, request=request, candidate=candidate)
