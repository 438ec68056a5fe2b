"""``lcplan init``: a request file from five questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import yaml

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import write_text
from lcplan.formats.units import parse_tokens
from planner.cli.output import print_places
from planner.trainers import trainer_names

HEAD = """# A request of lcplan: it takes every option of `lcplan search`, one per line.
# For example: global-batch: 64, mesh: context=8..32, remat: [full, save-all], stages: modelled
"""
NONE = "none"
_MODEL = "Model (a name of `lcplan catalog models`, or a config.json)"
_HARDWARE = "Hardware (a name of `lcplan catalog hardware`, xN for N of it)"


@click.command("init")
@click.argument("file", default="request.yaml", metavar="[FILE]")
def command(file: str) -> int:
    """Ask five questions and write the answers to FILE, a request.yaml that `lcplan search` takes.

    An answer that lcplan does not know is asked again, with the nearest name. A file that exists is not overwritten.
    """
    path = Path(file)
    if path.exists():
        raise BadInputError(f"{path} exists; name another file, or edit it")
    click.echo(err=True, message="Return takes the value in brackets.")
    model = click.prompt(_MODEL, value_proc=_known(catalog.model), err=True)
    seq = click.prompt("Tokens of a sequence", default="64k", value_proc=_known(parse_tokens), err=True)
    hardware = click.prompt(_HARDWARE, value_proc=_known(catalog.hardware), err=True)
    most = catalog.hardware(hardware).devices
    devices = click.prompt("Devices, at most all", default=most, type=click.IntRange(1, most), err=True)
    trainer = click.prompt("Trainer", default=NONE, type=click.Choice([NONE, *trainer_names()]), err=True)
    words: dict[str, str | int] = {"model": model, "seq": seq, "hw": hardware}
    words |= {"devices": devices} if devices != most else {}
    words |= {"for": trainer} if trainer != NONE else {}
    write_text(path, HEAD + yaml.safe_dump(words, sort_keys=False), anew=True)
    print_places([("request", str(path)), ("next", f"lcplan search {path}")])
    return 0


def _known(read: Callable[[str], object]) -> Callable[[str], str]:
    """Return a check of an answer: the text that ``read`` takes; the prompt shows its refusal and asks again."""

    def check(text: str) -> str:
        try:
            read(text)
        except BadInputError as error:
            raise click.UsageError(str(error)) from None
        return text

    return check
