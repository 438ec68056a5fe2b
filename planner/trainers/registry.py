"""The trainers: one folder each, and one line each in ``TRAINERS``. Everything that lists trainers lists these.

A folder holds ``facts.py`` (the record ``TRAINER``), ``export.py`` and ``check.py``; where the record has a format that is
read, ``read.py`` and ``keys.txt`` too, and where it names a kind of hardware that the trainer compiles for, ``compile.py``;
where it names a module of changes, that.
Each is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers.common.interface import Format, FrontEnd, Trainer

if TYPE_CHECKING:
    from planner.trainers.changes.interface import Form
    from planner.trainers.common.export_files import Exporter
    from planner.trainers.common.imported import Reader
    from planner.trainers.common.own_compile import OwnCompiler

TRAINERS: dict[str, str] = {
    "maxtext": "planner.trainers.maxtext",
    "megatron": "planner.trainers.megatron",
    "torchtitan": "planner.trainers.torchtitan",
    "accelerate": "planner.trainers.accelerate",
    "deepspeed": "planner.trainers.deepspeed",
    "levanter": "planner.trainers.levanter",
    "jax": "planner.trainers.jax",
}
"""The package of each trainer, in the order in which commands and pages list them."""


FRONT_ENDS: dict[str, str] = {
    "llamafactory": "planner.trainers.llamafactory",
    "axolotl": "planner.trainers.axolotl",
    "trl": "planner.trainers.trl",
    "bridge": "planner.trainers.bridge",
    "verl": "planner.trainers.verl",
}
"""The package of each program that starts one of the trainers with settings of its own; lcplan reads its files."""


def package_of(name: str) -> str:
    """The package of a trainer or a front end."""
    return TRAINERS[name] if name in TRAINERS else FRONT_ENDS[name]


def front_end(name: str) -> FrontEnd:
    """The record of one front end."""
    found: FrontEnd = import_module(f"{FRONT_ENDS[name]}.facts").FRONT_END
    return found


def formats() -> dict[str, Format]:
    """The formats that are read, by the name of their trainer or front end."""
    read = {name: trainer(name).reads for name in TRAINERS}
    return {name: form for name, form in read.items() if form is not None} | {
        name: front_end(name).reads for name in FRONT_ENDS
    }


def trainer_names() -> tuple[str, ...]:
    """Every registered name."""
    return tuple(TRAINERS)


def trainer(name: str) -> Trainer:
    """The record of one trainer.

    Raises
    ------
    BadInputError
        No trainer has this name; the message lists the names.
    """
    if name not in TRAINERS:
        raise BadInputError(f"no trainer {name!r}{hint(name, trainer_names())}")
    found: Trainer = import_module(f"{TRAINERS[name]}.facts").TRAINER
    return found


def all_trainers() -> tuple[Trainer, ...]:
    """Every record."""
    return tuple(trainer(name) for name in TRAINERS)


def exporter(name: str) -> Exporter:
    """The function that writes a trainer's files."""
    found: Exporter = import_module(f"{TRAINERS[name]}.export").export
    return found


def reader(name: str) -> Reader:
    """The function that reads a trainer's file."""
    found: Reader = import_module(f"{package_of(name)}.read").read
    return found


def form_of(name: str) -> Form | None:
    """How lcplan changes settings of a trainer's files; None: it changes none."""
    module = trainer(name).changes
    if not module:
        return None
    found: Form = import_module(f"{TRAINERS[name]}.{module}").FORM
    return found


def own_compiler(name: str) -> OwnCompiler:
    """How a trainer compiles its own step."""
    found: OwnCompiler = import_module(f"{TRAINERS[name]}.compile").COMPILER
    return found


def folder_of(name: str) -> Path:
    """The folder of a trainer, for files that are not imported here: ``check.py``, ``keys.txt``."""
    return Path(import_module(package_of(name)).__path__[0])


def checker(name: str) -> Path:
    """The script that runs in the trainer's own Python."""
    return folder_of(name) / "check.py"
