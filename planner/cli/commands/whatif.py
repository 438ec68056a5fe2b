"""``lcplan whatif``: how long, how few devices, how large a batch, and sweeps over anything."""

from __future__ import annotations

from typing import Any, get_args

import click

from lcplan.formats.errors import EXIT_NOTHING_FITS, BadInputError
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES
from planner.candidates.candidate import Candidate
from planner.cli.build import RequestOptions, build_request
from planner.cli.from_files import from_options, given_file, with_file, without_file
from planner.cli.groups import GroupedCommand
from planner.cli.options import (
    RequestWords,
    knob_options,
    output_format,
    price_option,
    request_options_with,
    toolchain_option,
    workload_options,
)
from planner.cli.output import print_csv, print_json, print_view, stderr_console
from planner.measure.targets.toolchain import Toolchain, probe
from planner.report.terminal.whatif import whatif_view
from planner.request.request import SearchRequest
from planner.run.toolchain_offer import offer
from planner.trainers.common.imported import Imported
from planner.what_if.question import placeholder_batch, what_if
from planner.what_if.result import Question, WhatIf
from planner.what_if.vary import QUANTITIES, parse_vary

EPILOG = f"""\b
Examples:
  lcplan whatif max-seq --model llama3-8b --hw dgx-h100 --devices 8 --global-batch 1
  lcplan whatif min-devices --model llama3.1-70b --seq 128k --hw dgx-h100x16
  lcplan whatif max-batch --model llama3-8b --seq 32k --hw dgx-h100 --vary hbm=80GiB,141GiB,192GiB
  lcplan whatif max-seq --from-maxtext my_run.yml --hw v5p-64
  lcplan whatif sweep --model llama3-8b --hw dgx-h100x4 --seq 64k --vary devices=8..32 --vary seq=64k..1m

--vary takes: {" ".join(QUANTITIES)}. a..b doubles from a to b."""

SHORTEST = 128
"""Placeholder for the sequence length of max-seq, which asks for it."""


class WhatIfOptions(RequestOptions):
    """Every option of the command."""

    question: Question
    vary: tuple[str, ...] = ()
    price: float | None = None
    compile: bool
    toolchain: str | None = None
    output: str


@click.command("whatif", cls=GroupedCommand, epilog=EPILOG)
@from_options
@click.argument("question", type=click.Choice(get_args(Question)))
@request_options_with(
    RequestWords(
        seq="Sequence length; not needed by max-seq, and a sweep may vary it.",
        devices="At most this many devices. [default: all of the hardware]",
    )
)
@click.option("--vary", multiple=True, metavar="NAME=VALUES", help="Values with commas, or a..b doubling (repeatable).")
@price_option
@click.option("--compile", is_flag=True, help="Confirm with the target's own compiler.")
@toolchain_option
@workload_options
@knob_options
@output_format
def command(**options: Any) -> int:
    """Answer QUESTION: max-seq, min-devices, max-batch, or a sweep over the quantities of --vary.

    A boundary is exact under the cost model: the answer fits, and one step further no strategy does. Every point has its
    best strategy, its memory by part, and the constraint that binds. With --from-.. the strategy is that of a trainer's own
    configuration, and the question is about that plan.
    """
    if given_file(options) is not None:
        return _of_a_file(options)
    with_file(options, free=("seq",))
    parsed = WhatIfOptions.model_validate(options)
    request, varied = _request(parsed), parse_vary(parsed.vary)
    if parsed.budget is not None and any(one.quantity.name == "hbm" for one in varied):
        raise BadInputError("--budget fixes the quantity that --vary hbm varies; give one of them")
    toolchain = probe(parsed.toolchain)
    offered = offer(toolchain, request)
    result = what_if(request, parsed.question, backends=offered.backends, varied=varied)
    result = result.with_notes(offered.notes, parsed.price)
    if parsed.compile:
        result = _confirmed(result, toolchain)
    _print(result, parsed.output)
    return 0 if result.found else EXIT_NOTHING_FITS


FREE = {"max-seq": ("seq",), "max-batch": ("global_batch", "microbatches"), "min-devices": ("devices",), "sweep": ()}
"""Options of a file that each question finds."""


def _of_a_file(options: dict[str, Any]) -> int:
    """Answer a question about the plan of a trainer's own configuration."""
    from planner.imports.what_if import FileQuestion, what_if_file

    parsed = WhatIfOptions.model_validate(without_file(options) | {"model": options["model"] or "", "hw": options["hw"] or ""})
    if parsed.compile:
        raise BadInputError("--compile builds lcplan's own step; leave it out with a file of a trainer")
    if parsed.seq is not None and parsed.question == "max-seq":
        raise BadInputError("max-seq finds the sequence length; leave --seq out, or use sweep --vary seq=..")
    free = FREE[parsed.question] if parsed.question != "min-devices" else ()

    def read(devices: int | None) -> tuple[SearchRequest, Imported]:
        merged, imported = with_file(options | {"devices": devices or options["devices"]}, free=free)
        assert imported is not None, "a file is given"
        names = RequestOptions.model_fields
        given = {name: value for name, value in merged.items() if name in names}
        if parsed.question == "max-seq":
            given["seq"] = max(SHORTEST, parsed.document_len or 0)
        if parsed.question == "max-batch":
            given["global_batch"] = 1
        return build_request(RequestOptions.model_validate(given)), imported

    request, imported = read(None)
    offered = offer(probe(parsed.toolchain), request)
    ask = FileQuestion(imported, request, offered.backends, read)
    result = what_if_file(ask, parsed.question, parse_vary(parsed.vary))
    result = result.with_notes((*imported.notes, *offered.notes), parsed.price)
    _print(result, parsed.output)
    return 0 if result.found else EXIT_NOTHING_FITS


def _request(parsed: WhatIfOptions) -> SearchRequest:
    names = RequestOptions.model_fields
    given = {name: value for name, value in parsed.model_dump().items() if name in names}
    given |= placeholder_batch(parsed.question, parsed.kind, given)
    if "seq" not in WORKLOAD_TYPES[parsed.kind].facts.needs:
        return build_request(RequestOptions.model_validate(given))
    swept = any(text.partition("=")[0].strip() == "seq" for text in parsed.vary)
    if parsed.seq is None and parsed.question != "max-seq" and not swept:
        raise BadInputError(f"{parsed.question} needs a sequence length: give --seq, for example --seq 64k")
    if parsed.seq is not None and parsed.question == "max-seq":
        raise BadInputError("max-seq finds the sequence length; leave --seq out, or use sweep --vary seq=..")
    return build_request(RequestOptions.model_validate(given | {"seq": parsed.seq or max(SHORTEST, parsed.document_len or 0)}))


def _confirmed(result: WhatIf, toolchain: Toolchain) -> WhatIf:
    from planner.cli.progress import ProgressWatcher
    from planner.measure.workers.pool import PoolLimits
    from planner.run.measuring import Bench
    from planner.what_if.confirm import compiles, confirm

    with ProgressWatcher(stderr_console()) as watcher:
        watcher.stage("compiled", compiles(result))

        def measure(request: SearchRequest, candidate: Candidate) -> Candidate:
            compiled = next(Bench(request, toolchain, PoolLimits(jobs=1)).compile([candidate]))
            watcher.finished(compiled)
            return compiled

        return confirm(result, measure)


def _print(result: WhatIf, output: str) -> None:
    if output == "json":
        print_json(result.to_json())
    elif output == "csv":
        print_csv(result.rows())
    else:
        print_view(whatif_view(result))
