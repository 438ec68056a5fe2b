"""``lcplan doctor``: the toolchains, the targets that each can compile for, and the backends that are real in each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.text import Text

from planner.cli.output import print_json, print_view
from planner.measure.targets.backends import GPU_BACKENDS
from planner.measure.targets.compile_option import Verdict
from planner.measure.targets.flags import FlagParser, Variable
from planner.measure.targets.toolchain import Toolchain, probe
from planner.report.terminal.tables import FittedTable


@click.command("doctor")
@click.option("--toolchain", "pythons", multiple=True, metavar="PYTHON", help="Another Python to look at (repeatable).")
@click.option("--xla-flags", metavar="FLAGS", help="XLA_FLAGS of a job: which of them this XLA knows.")
@click.option("--libtpu-init-args", metavar="FLAGS", help="LIBTPU_INIT_ARGS of a job: which of them this libtpu knows.")
@click.option("--quick", is_flag=True, help="Judge backends by jax's version, without compiling.")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def command(pythons: tuple[str, ...], *, xla_flags: str | None, libtpu_init_args: str | None, quick: bool, output: str) -> int:
    """Show the targets that this Python, and others, can compile for, and which collective backends are real.

    A backend is real where the executable shows it, not where a flag is accepted: jax 0.10.2 accepts NVSHMEM's flag and
    ignores it. So doctor compiles a small ring for each, which takes some seconds a Python.

    With flags it checks only these, with the parsers of the Python's own packages: a flag that one of them does not know ends
    a job before it starts.
    """
    asked: dict[Variable, tuple[str, ...]] = {}
    asked |= {"XLA_FLAGS": tuple(xla_flags.split())} if xla_flags else {}
    asked |= {"LIBTPU_INIT_ARGS": tuple(libtpu_init_args.split())} if libtpu_init_args else {}
    found = [_look(python, asked, deep=not quick and not asked) for python in (sys.executable, *pythons)]
    if output == "json":
        print_json({"schema_version": 1, "toolchains": [_json(*one) for one in found]})
        return 0
    for toolchain, flags in found:
        print_view(Text(f"{toolchain.python}: jax {toolchain.jax or 'not installed'}", style="bold"))
        groups: dict[str, dict[str, Verdict]] = {"target": toolchain.targets, "backend": toolchain.backends}
        asked_of: dict[str, dict[str, Verdict]] = {str(variable): words for variable, words in flags.items()}
        print_view(_table(asked_of if asked else groups))
    return 0


Flags = dict[Variable, dict[str, Verdict]]


def _look(python: str, asked: dict[Variable, tuple[str, ...]], *, deep: bool) -> tuple[Toolchain, Flags]:
    """A toolchain, and its verdict on each flag."""
    toolchain = probe(python)
    if deep:
        from planner.measure.real_backends import seen

        toolchain = seen(toolchain)
    needed = {"XLA_FLAGS": ("jax", "jaxlib"), "LIBTPU_INIT_ARGS": ("jax", "jaxlib", "libtpu")}
    flags: Flags = {}
    for variable, words in asked.items():
        lacks = [name for name in needed[variable] if name not in toolchain.versions]
        none: dict[str, Verdict] = dict.fromkeys(words, f"not asked: not installed: {', '.join(lacks)}")
        flags[variable] = none if lacks else FlagParser(toolchain.python).verdicts(variable, words)
    return toolchain, flags


def _json(toolchain: Toolchain, flags: Flags) -> dict[str, Any]:
    return {
        "python": toolchain.python,
        "jax": toolchain.jax,
        "targets": toolchain.targets,
        "backends": toolchain.backends,
        "needs": {name: facts.needs for name, facts in GPU_BACKENDS.items()},
        "versions": toolchain.versions,
    } | ({"flags": flags} if flags else {})


def _table(groups: Mapping[str, Mapping[str, Verdict]]) -> FittedTable:
    table = FittedTable(headings=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for kind, verdicts in groups.items():
        for name, verdict in verdicts.items():
            good = verdict is True
            table.add_row(kind, name, Text("yes" if good else f"no: {verdict}", style="green" if good else "yellow"))
            if kind == "backend" and good and name in GPU_BACKENDS and GPU_BACKENDS[name].options:
                table.add_row("", "", Text(f"needs: {GPU_BACKENDS[name].needs}", style="dim"))
    return table
