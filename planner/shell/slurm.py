"""``#SBATCH`` lines of a script, and the variables that Slurm sets from them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIRECTIVE = re.compile(r"^[ \t]*#SBATCH[ \t]+(.+?)[ \t]*(?:#.*)?$", re.MULTILINE)
_SHORT = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-G": "--gpus"}
_OPTIONS = ("--nodes", "--ntasks", "--ntasks-per-node", "--gpus-per-node", "--gpus", "--gres", "--gpus-per-task")


def directives_of(text: str) -> tuple[str, ...]:
    """The words of the ``#SBATCH`` lines."""
    return tuple(word for line in _DIRECTIVE.findall(text) for word in line.split())


def options_of(words: Iterable[str]) -> dict[str, str]:
    """Return the options of Slurm that give the number of processes, by their long names.

    >>> options_of(["-N", "4", "--gres=gpu:8"])
    {'--nodes': '4', '--gpus-per-node': '8'}
    """
    found: dict[str, str] = {}
    words = [*words]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name)
        if re.fullmatch(r"-[NnG]\d+", word):
            name, value = _SHORT[word[:2]], word[2:]
        elif not equals:
            value = words[index + 1] if index + 1 < len(words) else ""
        if name in _OPTIONS:
            last = value.rpartition(":")[2]
            found["--gpus-per-node" if name == "--gres" else name] = last if name.startswith("--g") else value
    return {name: value for name, value in found.items() if value.isdecimal()}


def variables_of(words: Iterable[str]) -> dict[str, str]:
    """Variables that Slurm sets inside a job (its manual page of sbatch, "output environment variables")."""
    options = options_of(words)
    nodes, tasks = options.get("--nodes"), options.get("--ntasks-per-node")
    found = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS_PER_NODE": tasks}
    found["SLURM_GPUS_PER_NODE"] = found["SLURM_GPUS_ON_NODE"] = options.get("--gpus-per-node")
    found["SLURM_NTASKS"] = options.get("--ntasks") or (str(int(nodes) * int(tasks)) if nodes and tasks else None)
    return {name: value for name, value in found.items() if value is not None}
