"""``lcplan calibrate``: measure the devices at hand, write a hardware overlay."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from lcplan.spec.hardware import Figure
from planner.calibrate.overlay import check_out, overlay, write_overlay
from planner.calibrate.run import Calibration, calibrate
from planner.cli.output import print_json, print_view, stderr_console
from planner.measure.targets.toolchain import probe

EPILOG = """\b
Examples:
  lcplan calibrate --out my-host.yaml --hw cpu-host
  lcplan calibrate --out my-h100.yaml
  lcplan search --model llama3-8b --seq 64k --hw my-h100.yaml"""


@click.command("calibrate", epilog=EPILOG)
@click.option("--out", required=True, metavar="FILE", help="The YAML file to write; --hw reads it.")
@click.option("--hw", metavar="NAME", help="Hardware of the devices. [default: the catalogue's entry of their name]")
@click.option("--toolchain", metavar="PYTHON", help="Python whose jax measures. [default: this one]")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(*, out: str, hw: str | None, toolchain: str | None, output: str) -> int:
    """Measure the devices at hand: products, attention by chunk, memory, host link, and each collective by size and group.

    Writes a hardware spec: the catalogue's entry with the measured rates in it. The cost model uses these rates instead of
    published ones. Impossible figures are left out and unstable ones are marked, in the file and in the output.
    """
    console, interactive, path = stderr_console(), sys.stderr.isatty(), Path(out)
    check_out(path)

    def finished(number: int, total: int) -> None:
        if interactive:
            console.print(f"probe {number} of {total}", end="\r")

    found = calibrate(hw, probe(toolchain), finished=finished)
    data = overlay(found.base, found.findings, where=found.where)
    write_overlay(path, data)
    for warning in found.findings.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    if output == "json":
        print_json({"schema_version": 1, "device": found.device, "file": str(path), "overlay": data})
    else:
        print_view(Text(f"{found.device}, over {found.base.name}: {path}", style="bold"))
        print_view(_table(found))
    return 0


def _table(found: Calibration) -> Table:
    table = Table(box=None, pad_edge=False)
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
