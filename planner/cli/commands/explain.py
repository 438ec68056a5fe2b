"""``lcplan explain``: why a strategy won, why the others lost, which changes would alter that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lcplan.formats.errors import BadInputError
from planner.cli.file_plan import file_plan
from planner.cli.from_files import from_options, given_file
from planner.cli.groups import GroupedCommand
from planner.cli.options import knob_options, output_format, price_option, request_options
from planner.cli.output import print_csv, print_json, print_view
from planner.explain.explanation import Comparison, Explanation, compare, explain
from planner.explain.strategy_words import named_strategy
from planner.measure.targets.toolchain import probe
from planner.report.terminal.explain import comparison_view, explanation_view
from planner.report.terminal.tuning import tuning_view
from planner.run.run_read import Run, read_run

EPILOG = """\b
Examples:
  lcplan explain lcplan-runs/llama3-8b-256k-gb200-nvl72-1a2b3c4d
  lcplan explain RUN 3
  lcplan explain RUN "context=8,tensor=4 ring remat=save-all"
  lcplan explain RUN 1 2"""

MOST = 2


@click.command("explain", cls=GroupedCommand, epilog=EPILOG)
@from_options
@click.argument("run", metavar="[PLAN|RUN]", required=False)
@click.argument("strategies", metavar="[STRATEGY] [STRATEGY]", nargs=-1)
@request_options
@price_option
@knob_options
@output_format
def command(run: str | None, strategies: tuple[str, ...], price: float | None, output: str, **options: Any) -> int:
    """Explain the winner of RUN, or STRATEGY; compare two strategies term by term.

    RUN is a search's folder or its result.json, PLAN a plan.yaml. STRATEGY is a row's number in the table of candidates, or
    a mesh with knobs as the tables print them. With --from-.. and no RUN, the plan of a trainer's own configuration is
    explained; the options of a request and the knobs complete it.
    """
    if len(strategies) > MOST:
        raise BadInputError(f"explain takes one strategy, or two to compare; {len(strategies)} were given")
    read = _read(run, options)
    found = _found(read, strategies, price=price)
    if output == "json":
        print_json(found.to_json())
    elif output == "csv":
        print_csv(_rows(found))
    else:
        print_view(comparison_view(found) if isinstance(found, Comparison) else explanation_view(found))
        if read.tuning and not strategies:
            print_view(tuning_view(read.tuning))
    return 0


def _read(run: str | None, options: dict[str, Any]) -> Run:
    """The run of a folder or a plan, or the one plan of a trainer's own configuration."""
    file = given_file(options)
    if (run is None) == (file is None):
        raise BadInputError("explain takes a run or a plan, or a file of a trainer with --from-..; give one of them")
    if run is not None:
        return read_run(run)
    plan = file_plan(options, probe(None))
    notes = (*plan.imported.notes, *(f"refused by the trainer: {one}" for one in plan.opinion.refusals))
    return Run(Path(str(file)), plan.request, (plan.candidate,), None, {}, None, (), notes, None)


def _found(run: Run, strategies: tuple[str, ...], *, price: float | None) -> Explanation | Comparison:
    named = [named_strategy(text, run) for text in strategies]
    if len(named) == MOST:
        return compare(run, first=named[0], second=named[1])
    return explain(run, named[0] if named else None, price_usd_per_device_hour=price)


def _rows(found: Explanation | Comparison) -> list[dict[str, Any]]:
    """One row a term, memory in bytes and time in seconds."""
    if isinstance(found, Comparison):
        parts = (("memory_bytes", found.memory), ("time_s", found.time))
        return [
            {"quantity": name, "term": term.term, "first": term.first, "second": term.second, "more": term.more}
            for name, terms in parts
            for term in terms
        ]
    return [
        {"quantity": name, "term": term, "value": value}
        for name in ("memory_bytes", "time_s")
        for term, value in found.candidate.estimate[name].items()
    ]
