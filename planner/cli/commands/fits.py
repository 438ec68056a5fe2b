"""``lcplan fits``: a gate for continuous integration."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from lcplan.formats.errors import EXIT_ANSWER, EXIT_NOTHING_FITS, BadInputError
from planner.cli.hardware_words import noted
from planner.cli.options import HW_HELP, Bytes, Tokens
from planner.cli.output import print_json, print_view
from planner.fits.footprint import Footprint
from planner.fits.growth import Growth
from planner.fits.subject import Asked, footprints, judged, read_subject
from planner.measure.targets.toolchain import probe
from planner.request.document import SCHEMA_VERSION

EPILOG = """\b
Examples:
  lcplan fits run/plan.yaml --hw dgx-h100 --budget 72GiB
  lcplan fits my_step.py --hw dgx-h100 --mesh data=8,model=1 --knob remat=full --seq 8k --global-batch 8 --baseline fits.json
  lcplan fits run --step my_step.py --hw dgx-h100 --toolchain old/.venv --toolchain new/.venv --tolerance 2%"""


class Share(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """``2%`` or ``0.02``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the ratio."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            ratio = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            ratio = -1.0
        if not 0.0 <= ratio <= 1.0:
            raise BadInputError(f"--tolerance {text[:40]!r}: give a share from 0% to 100%, such as 2%")
        return ratio


@click.command("fits", epilog=EPILOG)
@click.argument("subject", type=click.Path(path_type=Path), metavar="PLAN|RUN|STEP")
@click.option("--hw", metavar="NAME|FILE", callback=noted, help=f"{HW_HELP} [default: that of the plan]")
@click.option(
    "--budget", type=Bytes(), metavar="BYTES", help="Memory per device. [default: that of the plan, or of the hardware]"
)
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Stored figures to compare with; written if absent."
)
@click.option("--update", is_flag=True, help="Write the baseline again.")
@click.option("--tolerance", type=Share(), default="2%", show_default=True, help="Growth that passes.")
@click.option("--step", metavar="FILE", help="Step file of a plan of a step of your own, to compile it again.")
@click.option("--mesh", metavar="AXIS=N,..", help="Step file: size of each axis.")
@click.option("--knob", multiple=True, metavar="NAME=VALUE", help="Step file: value of a knob.")
@click.option("--devices", type=click.IntRange(min=1), help="Step file: number of devices. [default: the mesh's]")
@click.option("--seq", type=Tokens(), metavar="TOKENS", help="Step file: sequence length.")
@click.option("--global-batch", type=click.IntRange(min=1), metavar="SEQS", help="Step file: sequences per step.")
@click.option(
    "--toolchain", multiple=True, metavar="PYTHON", help="Python whose jax compiles; a second one is compared with the first."
)
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(**options: Any) -> int:
    """Check that the step of PLAN, RUN or STEP fits, and has not grown.

    The exit code is 1 if it does not fit the budget, or if memory or bytes per axis grew by more than the tolerance
    over the baseline, or from one toolchain to the next. Then the output lists the growth by part, buffer and collective.
    """
    subject = read_subject(_asked(options))
    budget = options["budget"] or subject.budget_bytes
    found = footprints(subject, [probe(python) for python in options["toolchain"]])
    compared, written = _compared(found, options)
    if options["output"] == "json":
        document = {"schema_version": SCHEMA_VERSION, "budget_bytes": budget, "baseline_written": written}
        print_json(
            document | {"footprints": [judged(one, budget) for one in found], "growth": [one.to_json() for one in compared]}
        )
    else:
        from planner.report.terminal.steps.fits import fits_view

        print_view(fits_view(found, compared, budget_bytes=budget, written=options["baseline"] if written else None))
    over = any(one.need_bytes > budget for one in found)
    return EXIT_NOTHING_FITS if over or any(one.failures for one in compared) else EXIT_ANSWER


def _asked(options: dict[str, Any]) -> Asked:
    if options["update"] and options["baseline"] is None:
        raise BadInputError("--update writes the file of --baseline; name it")
    own = ("mesh", "knob", "devices")
    extra = [f"--{name}" for name in own if options[name] not in (None, ())]
    if extra and options["subject"].suffix != ".py":
        raise BadInputError(f"{', '.join(extra)}: {options['subject']} has its strategy; these options are for a step file")
    names = ("subject", "hw", "step", "seq", "global_batch", "devices", "mesh", "knob")
    return Asked(**{name: options[name] for name in names})


def _compared(found: list[Footprint], options: dict[str, Any]) -> tuple[list[Growth], bool]:
    """The comparisons with the baseline, or of each toolchain with the one before; and whether a baseline was written."""
    tolerance, path = options["tolerance"], options["baseline"]
    between = [Growth(one, other, tolerance) for one, other in pairwise(found)]
    if path is None:
        return between, False
    if options["update"] or not path.exists():
        found[0].save(path)
        return between, True
    before = Footprint.load(path)
    _check_same(before, found[0], path)
    return [*(Growth(before, one, tolerance) for one in found)], False


def _check_same(before: Footprint, after: Footprint, path: Path) -> None:
    """Refuse a baseline of another strategy or target."""
    if before.strategy != after.strategy or before.target != after.target:
        raise BadInputError(
            f"{path} is of another step: {before.strategy} for {before.target}, not {after.strategy} for {after.target}; give"
            " another --baseline, or write it again with --update"
        )
