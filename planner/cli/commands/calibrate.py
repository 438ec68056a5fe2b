"""``lcplan calibrate``: measure the devices at hand, write a hardware overlay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import Figure
from planner.calibrate.overlay import check_out, overlay, write_overlay
from planner.calibrate.run import Calibration, calibrate
from planner.cli.output import print_json, print_view, stderr_console
from planner.measure.targets.toolchain import probe
from planner.report.terminal.tables import FittedTable

EPILOG = """\b
Examples:
  lcplan calibrate --out my-host.yaml --hw cpu-host
  lcplan calibrate --out my-h100.yaml
  lcplan calibrate --out my-h100.yaml --from-profile trace --plan run
  lcplan search --model llama3-8b --seq 64k --hw my-h100.yaml"""


@click.command("calibrate", epilog=EPILOG)
@click.option("--out", required=True, metavar="FILE", help="The YAML file to write; --hw reads it.")
@click.option("--hw", metavar="NAME", help="Hardware of the devices. [default: the catalogue's entry of their name]")
@click.option("--from-profile", metavar="DIR|FILE", help="Fit the rates to a profile of jax.profiler instead of measuring.")
@click.option("--plan", metavar="PLAN|RUN", help="--from-profile: the plan that ran.")
@click.option("--toolchain", metavar="PYTHON", help="Python whose jax measures. [default: this one]")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(**options: Any) -> int:
    """Measure the devices at hand: products, attention by chunk, memory, host link, and each collective by size and group.

    Writes a hardware spec: the catalogue's entry with the measured rates in it. The cost model uses these rates instead of
    published ones. Impossible figures are left out and unstable ones are marked, in the file and in the output.

    With --from-profile nothing is measured: the rates that the plan's estimate rests on are fitted to the time that each
    part of its profiled step took.
    """
    console, path = stderr_console(), Path(options["out"])
    check_out(path)
    found = _profiled(options) if options["from_profile"] else _measured(options)
    data = overlay(found.base, found.findings, where=found.where)
    write_overlay(path, data)
    for warning in found.findings.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    if options["output"] == "json":
        print_json({"schema_version": 1, "device": found.device, "file": str(path), "overlay": data})
    else:
        print_view(Text(f"{found.device}, over {found.base.name}: {path}", style="bold"))
        print_view(_table(found))
    return 0


def _profiled(options: dict[str, Any]) -> Calibration:
    """Fit rates to a profile.

    Raises
    ------
    BadInputError
        No profile or plan, or an option that only a measurement takes.
    """
    from planner.calibrate.from_profile import from_profile
    from planner.inspect.profile.report import report_of

    foreign = [f"--{name}: --from-profile does not take it; the plan has it" for name in ("hw", "toolchain") if options[name]]
    if foreign:
        raise BadInputError(foreign)
    plan = Path(options["plan"]) if options["plan"] else None
    return from_profile(report_of(Path(options["from_profile"]), plan=plan))


def _measured(options: dict[str, Any]) -> Calibration:
    """Measure the devices at hand.

    Raises
    ------
    BadInputError
        A plan without a profile.
    """
    if options["plan"]:
        raise BadInputError("--plan: goes with --from-profile; a measurement takes no plan")
    console, interactive = stderr_console(), sys.stderr.isatty()

    def finished(number: int, total: int) -> None:
        if interactive:
            console.print(f"probe {number} of {total}", end="\r")

    return calibrate(options["hw"], probe(options["toolchain"]), finished=finished)


def _table(found: Calibration) -> FittedTable:
    table = FittedTable(header_style="bold")
    for name in ("figure", "value", "spread and samples"):
        table.add_column(name)
    figures: list[tuple[str, object]] = list(found.findings.rates.items())
    if found.findings.host is not None:
        figures.append(("host_oneway_bytes_per_s", found.findings.host))
    for name, value in figures:
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for inner, figure in rows:
            both = figure["oneway_bytes_per_s"] if isinstance(figure, dict) else figure
            if isinstance(both, Figure):
                table.add_row(f"{name}.{inner}" if inner else name, f"{both.value:.4g}", both.source.split(": ", 1)[-1])
    return table
