"""The command line. Commands load when they are called, so that ``lcplan --help`` is a blink."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path

import click

from lcplan import __version__
from lcplan.formats.errors import EXIT_BAD_INPUT, EXIT_STAGE_FAILED, LcplanError
from planner.cli.groups import with_variables

DEBUG = "LCPLAN_DEBUG"
"""Variable that shows the traceback of a fault."""
MOST_LINES = 40
"""Problems of one input that are printed."""
LONGEST_LINE = 4000
COMMANDS: dict[str, str] = {
    "search": "Find the best layout: enumerate, reject, price, compile for the target, choose.",
    "estimate": "Price one strategy; with --compile also read it from the target's own compiler.",
    "whatif": "Longest sequence, fewest devices, largest batch, or a sweep over anything.",
    "compare": "The same job on several clusters, or finished runs, in time, money and energy.",
    "validate": "Compare the cost model's predictions with published measurements.",
    "calibrate": "Measure the devices at hand and write a hardware overlay.",
    "explain": "Why a strategy won, why the others lost, which changes would alter that.",
    "export": "Write a plan as the files of a trainer, and list where that trainer deviates.",
    "report": "One self-contained HTML page of a run; with --plots its charts as PNG and SVG.",
    "fits": "A gate for CI: does a plan, run or step still fit, and has it grown?",
    "inspect": "Look inside a plan's or a step file's executable, one part of a step, or a profile.",
    "init": "Write a request file: five questions.",
    "runs": "List the runs in this folder and in lcplan-runs.",
    "catalog": "List or show the models and hardware that lcplan knows.",
    "doctor": "Show toolchains, their compile targets, and which backends are real.",
    "completion": "Print the shell's completion script.",
}
IN_SETUP = {name: f"setup.{name}" for name in ("init", "doctor", "completion")}
"""Modules of the commands around a search."""

EPILOG = """\b
Examples:
  lcplan search --model llama3-8b --seq 256k --hw gb200-nvl72
  lcplan search --model llama3.1-70b --seq 128k --hw dgx-h100x4 --mesh tensor=4,8 --stages modelled
  lcplan estimate --model llama3-8b --seq 256k --hw gb200-nvl72 --mesh context=16,tensor=2 --compile
  lcplan catalog hardware gb200-nvl72

\b
Every figure carries its evidence level: modelled < compiled:host < compiled:target < timed:slice < timed:full.
Exit code: 0 an answer, 1 nothing fits, 2 bad input, 3 a stage could not run."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"planner.cli.commands.{IN_SETUP.get(cmd_name, cmd_name)}").command
        return with_variables(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a command, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest name."""
        from lcplan.formats.suggest import hint

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{hint(args[0], tuple(COMMANDS))}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="lcplan")
def cli() -> None:
    """Plan how to lay a long-context LLM out on a cluster, and know how sure you are.

    lcplan enumerates meshes (data, fsdp, context, tensor, expert, pipe), context schemes, remat policies and collective
    backends; rejects impossible strategies with a reason; prices the rest; compiles the survivors' real train step with the
    target's own compiler, which needs no target hardware; and writes the winner as plan.yaml.
    """


def main() -> None:
    """Entry point of the console script: run a command and exit with its code. A scheduler's SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors go to stderr as one message each, never a traceback."""
    try:
        code = cli.main(args=arguments, prog_name="lcplan", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, Exception) as error:
        return _code_of(error)


def _code_of(error: BaseException) -> int:
    """Print an error as one message, and return its exit code."""
    code = EXIT_STAGE_FAILED
    if isinstance(error, click.ClickException):
        error.show()
        code = EXIT_BAD_INPUT
    elif isinstance(error, LcplanError):
        lines = str(error).splitlines()
        for line in lines[:MOST_LINES]:
            click.echo(f"lcplan: {_printable(line)}", err=True)
        if len(lines) > MOST_LINES:
            click.echo(f"lcplan: .. and {len(lines) - MOST_LINES} more", err=True)
        code = error.exit_code
    elif isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("lcplan: interrupted; finished compiles and timings are kept, and the same command resumes", err=True)
        code = 130
    elif isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    elif os.environ.get(DEBUG):
        raise error
    else:
        click.echo(f"lcplan: {_fault(error)}", err=True)
    return code


def _fault(error: BaseException) -> str:
    """Return the text for a fault of lcplan itself: its place, and the output to report."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((frame for frame in reversed(frames) if _is_ours(frame.filename)), frames[-1])
    place = f"{Path(ours.filename).parent.name}/{Path(ours.filename).name}:{ours.lineno}"
    words = " ".join(_printable(str(error)[:300]).split())
    return (
        f"a fault of lcplan {__version__} itself, not of the input: {type(error).__name__} at {place}: {words}; "
        f"please report it with the command, and the output under {DEBUG}=1"
    )


def _printable(line: str) -> str:
    """A line of a message, which may quote a user's file, without control characters and not endless."""
    shown = "".join(character if character.isprintable() else " " for character in line[:LONGEST_LINE])
    return shown if len(line) <= LONGEST_LINE else f"{shown}.."


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(Path(__file__).parents[2])
