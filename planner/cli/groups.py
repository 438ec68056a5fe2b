"""Help in groups, and options from the environment.

An option is in the group that its maker named with ``grouped``; options without one are the command's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

GROUPS: Mapping[str, str] = {
    "job": "Job",
    "files": "Job from a file of a trainer",
    "workload": "Workload",
    "own": "Options",
    "space": "Space: several values are separated by commas",
    "output": "Output",
}
"""Headings of the groups, in the order of the help."""
OUTPUT = ("out", "verbose", "quiet", "output", "price", "help")
"""Parameters that every command has in the last group."""
PREFIX = "LCPLAN_"
"""Beginning of the variable of every option: ``LCPLAN_GLOBAL_BATCH`` is ``--global-batch``."""
_ATTRIBUTE = "lcplan_group"


def grouped(name: str, options: Iterable[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Return a decorator that adds ``options`` in their order, in the group ``name`` of the help."""

    def add(command: F) -> F:
        before = len(getattr(command, "__click_params__", ()))
        for option in reversed(list(options)):
            command = option(command)
        for parameter in command.__click_params__[before:]:  # type: ignore[attr-defined]
            setattr(parameter, _ATTRIBUTE, name)
        return command

    return add


def group_of(parameter: click.Parameter) -> str:
    """Return the group of an option."""
    return str(getattr(parameter, _ATTRIBUTE, "output" if parameter.name in OUTPUT else "own"))


class GroupedCommand(click.Command):
    """A command whose help lists the options by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections[group_of(parameter)].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(GROUPS[name]):
                    formatter.write_dl(records)


def with_variables(command: click.Command) -> click.Command:
    """Let every option of ``command`` that has no variable yet take its value from ``LCPLAN_<OPTION>``."""
    for parameter in command.params:
        long = next((one for one in parameter.opts if one.startswith("--")), None)
        if isinstance(parameter, click.Option) and parameter.envvar is None and long is not None and not parameter.is_eager:
            parameter.envvar = PREFIX + long.removeprefix("--").replace("-", "_").upper()
    return command
