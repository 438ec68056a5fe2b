"""How many devices a command is started on, and on which TPU: the options of its launchers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.shell.commands import Command
from planner.shell.slurm import options_of
from planner.shell.words.unknown import Word

_PER_NODE = ("--nproc-per-node", "--nproc_per_node", "--num_gpus", "--num-gpus", "--npernode", "--ntasks-per-node")
_NODES = ("--nnodes", "--num_nodes", "--num-nodes", "--nodes")
_ALL = ("--num_processes", "--num-processes", "-np", "--np")
_TPU = ("--device-type", "--tpu-type", "--tpu_type", "--device_type")
_TYPE = re.compile(r"(tpu-?)?(v\d\w*|7x|tpu7x)-[\dx]+")


@dataclass(frozen=True)
class Launch:
    """The devices of a launch, as far as the script has them."""

    devices: int | None = None
    hardware: str | None = None
    """A TPU slice, as ``--hw`` takes it."""
    slices: int = 1
    why: str = ""
    """The launcher's own words."""


NO_LAUNCH = Launch()
"""A script that does not state its devices."""


def launch_of(command: Command) -> Launch:
    """Return the devices that a command is started on."""
    words = [word for one in command.chain for word in (*one.words[: one.program_at], *one.arguments)]
    tpu = _value(words, _TPU)
    if tpu is not None and _TYPE.fullmatch(tpu[1]):
        slices = _value(words, ("--num-slices", "--num_slices"))
        count = int(slices[1]) if slices is not None and slices[1].isdecimal() else 1
        name = f"tpu-{tpu[1].removeprefix('tpu-').removeprefix('tpu')}"
        return Launch(hardware=name, slices=count, why=f"{tpu[0]}={tpu[1]}")
    return _processes(command, [*words])


def _processes(command: Command, words: Sequence[Word]) -> Launch:
    every = _number(words, _ALL)
    if every is not None:
        return Launch(every[1], why=f"{every[0]} {every[1]}")
    slurm = options_of(word.text for one in command.chain for word in one.words if not word.unknown)
    slurm = {**options_of(command.directives), **slurm}
    nodes, local = _number(words, _NODES), _number(words, _PER_NODE)
    environment = command.environment
    found_nodes = nodes or _variable(environment.get("NNODES"), "NNODES") or _slurm(slurm, "--nodes")
    found_local = local or _variable(environment.get("NPROC_PER_NODE"), "NPROC_PER_NODE")
    found_local = found_local or _visible(environment.get("CUDA_VISIBLE_DEVICES"))
    found_local = found_local or _slurm(slurm, "--gpus-per-node") or _slurm(slurm, "--ntasks-per-node")
    if found_local is None or (found_nodes is None and _asks(words, _NODES)):
        return Launch()
    hosts = found_nodes[1] if found_nodes is not None else 1
    said = [f"{name} {number}" for name, number in (*((found_nodes,) if found_nodes else ()), found_local)]
    return Launch(hosts * found_local[1], why=", ".join(said))


def _value(words: Sequence[Word], names: Iterable[str]) -> tuple[str, str] | None:
    """The name and the value of one of several options, if it is known."""
    wanted = frozenset(names)
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name in wanted:
            found = word if equals else words[index + 1] if index + 1 < len(words) else Word("")
            return None if found.unknown else (name, value if equals else found.text)
    return None


def _number(words: Sequence[Word], names: Iterable[str]) -> tuple[str, int] | None:
    found = _value(words, names)
    return (found[0], int(found[1])) if found is not None and found[1].isdecimal() and int(found[1]) else None


def _asks(words: Sequence[Word], names: Iterable[str]) -> bool:
    """Whether one of the options is there at all."""
    return any(word.text.partition("=")[0] in names for word in words)


def _variable(word: Word | None, name: str) -> tuple[str, int] | None:
    return (name, int(word.text)) if word is not None and word.text.isdecimal() and int(word.text) else None


def _visible(word: Word | None) -> tuple[str, int] | None:
    if word is None or word.unknown or not word.text.strip(","):
        return None
    return f"CUDA_VISIBLE_DEVICES={word.text}, which are", len(word.text.strip(",").split(","))


def _slurm(options: dict[str, str], name: str) -> tuple[str, int] | None:
    return (name, int(options[name])) if name in options else None
