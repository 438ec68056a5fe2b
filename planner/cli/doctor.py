"""``lcplan doctor``: which toolchains there are, what each can compile for, and which backends each really has."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from planner.cli.output import print_json, print_view
from planner.measure.toolchain import Toolchain, probe


@click.command("doctor")
@click.option("--toolchain", "pythons", multiple=True, metavar="PYTHON", help="Another Python to look at (repeatable).")
@click.option("--quick", is_flag=True, help="Judge backends by jax's version, without compiling.")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(pythons: tuple[str, ...], *, quick: bool, output: str) -> int:
    """Show what this Python, and others, can compile for, and which collective backends are real there.

    A backend is real where the executable shows it, not where a flag is accepted: jax 0.10.2 accepts NVSHMEM's flag and
    ignores it. So doctor compiles a small ring for each, which takes some seconds a Python.
    """
    toolchains = [probe(python, deep=not quick) for python in (sys.executable, *pythons)]
    if output == "json":
        print_json({"schema_version": 1, "toolchains": [_json(toolchain) for toolchain in toolchains]})
        return 0
    for toolchain in toolchains:
        print_view(Text(f"{toolchain.python}: jax {toolchain.jax or 'not installed'}", style="bold"))
        print_view(_table(toolchain))
    return 0


def _json(toolchain: Toolchain) -> dict[str, Any]:
    return {
        "python": toolchain.python,
        "jax": toolchain.jax,
        "targets": toolchain.targets,
        "backends": toolchain.backends,
        "versions": toolchain.versions,
    }


def _table(toolchain: Toolchain) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for kind, verdicts in (("target", toolchain.targets), ("backend", toolchain.backends)):
        for name, verdict in verdicts.items():
            good = verdict is True
            table.add_row(kind, name, Text("yes" if good else f"no: {verdict}", style="green" if good else "yellow"))
    return table
