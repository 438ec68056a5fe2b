"""``lcplan completion``: the script with which a shell completes commands, options and values."""

from __future__ import annotations

import sys

import click
from click.shell_completion import BashComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
EPILOG = """\b
Examples:
  lcplan completion bash >> ~/.bashrc
  lcplan completion fish > ~/.config/fish/completions/lcplan.fish"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the completion script of SHELL."""
    from planner.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    script = found(cli, {}, "lcplan", "_LCPLAN_COMPLETE")
    known = isinstance(script, BashComplete)  # its source() looks for a bash on this machine, which need not be there
    sys.stdout.write(script.source_template % script.source_vars() if known else script.source())
    return 0
