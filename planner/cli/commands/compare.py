"""``lcplan compare``: the same job on several clusters, or finished runs, in time, money and energy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lcplan.formats.errors import EXIT_NOTHING_FITS, BadInputError
from lcplan.formats.textfile import write_text
from planner.cli.build import RequestOptions, build_request, objective_option
from planner.cli.groups import GroupedCommand
from planner.cli.options import (
    RequestWords,
    knob_options,
    output_format,
    request_options_with,
    toolchain_option,
    workload_options,
)
from planner.cli.output import print_csv, print_json, print_view, stderr_console
from planner.cli.progress import ProgressWatcher
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.report.terminal.clusters import clusters_view
from planner.report.view.performance import nearest_miss
from planner.request.request import Objective, SearchRequest, Stage, default_global_batch
from planner.run.clusters import Cluster, Comparison
from planner.run.measuring import Bench
from planner.run.run_read import read_run
from planner.run.stages import Effort, search

EPILOG = """\b
Examples:
  lcplan compare --model llama3.1-70b --seq 8k --hw dgx-h100x8,dgx-b200x8,gb200-nvl72 --devices 64
  lcplan compare --model llama3-8b --seq 256k --hw dgx-h100x4,gb200-nvl72 --price 2.5,6
  lcplan compare lcplan-runs/a lcplan-runs/b --page both.html"""


class CompareOptions(RequestOptions):
    """Every option of the command."""

    model: Any = None
    hw: str = ""
    runs: tuple[str, ...] = ()
    objective: Objective = "tokens_per_s"
    stages: Stage = "modelled"
    survivors: int = 4
    price: str | None = None
    page: str | None = None
    toolchain: str | None = None
    output: str


@click.command("compare", cls=GroupedCommand, epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@request_options_with(
    RequestWords(
        hw=click.option("--hw", default="", metavar="NAME,NAME,..", help="Clusters to compare, separated by commas."),
        needs_model=False,
        devices="Exactly this many devices of each. [default: every count]",
        batch_default="the largest default batch of the clusters",
        budget_default="each hardware's usable memory",
    )
)
@objective_option
@click.option(
    "--stages",
    type=click.Choice(["modelled", "compiled"]),
    default="modelled",
    show_default=True,
    help="Last stage on each cluster.",
)
@click.option("--survivors", type=click.IntRange(1, 1000), default=4, show_default=True, help="Compiles of each cluster.")
@click.option("--price", metavar="USD,USD,..", help="Dollars per device-hour: one for all, or one for each cluster or run.")
@click.option("--page", metavar="FILE", help="Also write the table as one HTML page.")
@toolchain_option
@workload_options
@knob_options
@output_format
def command(**options: Any) -> int:
    """Compare the same job on several clusters, or finished RUNs: time, money and energy of a billion tokens.

    Each cluster has its best plan by the objective. Every figure is that of a search of the same request.
    """
    parsed = CompareOptions.model_validate(options)
    sides = parsed.runs or tuple(name.strip() for name in parsed.hw.split(",") if name.strip())
    _check(parsed, sides)
    prices = _prices(parsed.price, len(sides))
    clusters = tuple(_runs(parsed, prices) if parsed.runs else _clusters(parsed, sides, prices))
    comparison = Comparison(clusters, tuple(_notes(parsed, clusters)))
    if parsed.page is not None:
        _write(comparison, parsed.page)
    if parsed.output == "json":
        print_json(comparison.to_json())
    elif parsed.output == "csv":
        print_csv(comparison.rows())
    else:
        print_view(clusters_view(comparison))
        if parsed.page is not None:
            print_view(f"page: {parsed.page}")
    return 0 if comparison.found else EXIT_NOTHING_FITS


def _check(parsed: CompareOptions, sides: tuple[str, ...]) -> None:
    problems = []
    if parsed.runs and (parsed.hw or parsed.model):
        problems.append("compare takes runs, or --model and --hw; give one of them")
    if not parsed.runs and parsed.model is None:
        problems.append("compare needs --model and --hw a,b, or the folders of two runs")
    if len(sides) < 2:
        problems.append(f"compare needs two sides or more, and {len(sides)} is given: --hw a,b, or RUN RUN")
    repeated = sorted({name for name in sides if sides.count(name) > 1})
    problems += [f"{name} is given twice; give each side once" for name in repeated]
    if problems:
        raise BadInputError(problems)


def _prices(text: str | None, sides: int) -> list[float | None]:
    """One price for each side; None without prices."""
    if text is None:
        return [None] * sides
    try:
        found: list[float | None] = [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"--price {text}: not dollars per device-hour; write 2.5, or one for each side") from None
    if len(found) not in (1, sides) or any(price is None or not 0 <= price < 1e9 for price in found):
        raise BadInputError(f"--price {text}: {len(found)} prices for {sides} sides; give one price, or {sides}")
    return found if len(found) == sides else found * sides


def _clusters(parsed: CompareOptions, names: tuple[str, ...], prices: list[float | None]) -> Iterator[Cluster]:
    """A search of the same job on each hardware."""
    fields = RequestOptions.model_fields
    given = {name: value for name, value in parsed.model_dump().items() if name in fields and value is not None}
    requests, problems = [], []
    for name in names:
        try:
            requests.append(build_request(RequestOptions.model_validate(given | {"hw": name}), parsed.objective))
        except BadInputError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise BadInputError(problems)
    toolchain = probe(parsed.toolchain)
    limits = PoolLimits(jobs=min(2, os.cpu_count() or 1))
    for name, request, price in zip(names, _same_batch(requests), prices, strict=True):
        with ProgressWatcher(stderr_console()) as watcher:
            result = search(Bench(request, toolchain, limits), Effort(parsed.stages, parsed.survivors), watcher)
        miss = nearest_miss(result.nearest_miss, request) if result.nearest_miss else "every strategy breaks a rule"
        yield Cluster(name, request, result.winner, price, "" if result.winner else f"nothing fits. {miss}")


def _same_batch(requests: list[SearchRequest]) -> list[SearchRequest]:
    """The requests with one batch: without a given batch the largest default one."""
    if requests[0].workload.global_batch_given or requests[0].workload.kind != "train":
        return requests
    seq = requests[0].workload.seq_len
    batch = max(default_global_batch(seq, one.hardware, one.devices) for one in requests)
    return [one.model_copy(update={"workload": one.workload.resized(global_batch=batch)}) for one in requests]


def _runs(parsed: CompareOptions, prices: list[float | None]) -> Iterator[Cluster]:
    """The winners of finished runs."""
    for path, price in zip(parsed.runs, prices, strict=True):
        run = read_run(path)
        note = "" if run.winner else "nothing fits"
        yield Cluster(Path(path).name or path, run.request, run.winner, price, note)


def _notes(parsed: CompareOptions, clusters: tuple[Cluster, ...]) -> Iterator[str]:
    jobs = {(one.request.model.name, one.request.workload.seq_len, one.request.workload.global_batch) for one in clusters}
    if len(jobs) > 1:
        yield "the runs have different models, lengths or batches; figures are per token of each run's own job"
    if not parsed.runs and any(one.candidate and one.candidate.best.rung == "modelled" for one in clusters):
        yield "modelled figures of different hardware rest on different rates: a difference within the half-widths is open"


def _write(comparison: Comparison, page: str) -> None:
    from planner.report.charts.vega import require
    from planner.report.html.clusters import clusters_page

    require()
    try:
        write_text(page, clusters_page(comparison))
    except OSError as error:
        raise BadInputError(f"--page {page}: {error.strerror or error}") from None
