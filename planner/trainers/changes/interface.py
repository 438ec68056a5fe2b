"""Form: how a file of one trainer states a strategy, and which of its settings lower the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Difference, Job

Settings = Mapping[str, Any]
"""Values by the file's own keys, nested ones with their section before a dot; None: without the setting."""
Moves = Literal["", "optimizer", "all", "rounded"]


@dataclass(frozen=True)
class Switch:
    """Settings that lower a device's memory and that no knob of a strategy covers."""

    settings: Settings = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of ``lcplan estimate``'s options that express a change of the training script."""
    chunks: bool = False
    """Whether they cut the loss into chunks."""
    moves: Moves = ""
    """The part of the state that goes to the host, whose transfer the cost model doesn't price; or ``rounded``: parameters and
    moments in bf16, which trains otherwise."""


def nothing_split(_: Imported) -> dict[str, int]:
    """No axis has a fixed size."""
    return {}


def differences_of(imported: Imported, job: Job) -> list[Difference]:
    """List the differences of the file."""
    return imported.more(job)


@dataclass(frozen=True)
class Form:
    """The format of one trainer's files, for changes of a file that is read already."""

    settings: Callable[[Job, Imported], Settings]
    """The settings of a job's mesh, scheme, rematerialisation and batch, as far as the file has keys for them."""
    switches: Callable[[Imported, Job], tuple[Switch, ...]]
    """Switches that the file does not have on."""
    schemes: Callable[[Imported], tuple[str, ...]]
    """Context schemes that the file can state; empty: no context ranks."""
    remats: Callable[[Imported], tuple[str, ...]]
    """Rematerialisation that the file, or the training script, can state."""
    line: Callable[[str, Any], str]
    """A setting as the file writes it, for the reader."""
    axes: Callable[[Imported], Mapping[str, int]] = field(default=nothing_split)
    """Axes of one size only."""
    differences: Callable[[Imported, Job], list[Difference]] = differences_of
    """Differences of the file that hold for other strategies too."""
    script: Mapping[str, str] = field(default_factory=dict)
    """Words for knobs that the training script sets and the file does not."""


def yaml_line(key: str, value: Any) -> str:
    """Write a setting as a line of YAML, without its section.

    >>> yaml_line("fsdp_config.fsdp_offload_params", True)
    'fsdp_offload_params: true'
    """
    name = key.rpartition(".")[2]
    return f"without {name}" if value is None else f"{name}: {plain(value)}"


def plain(value: Any) -> str:
    """Write a value for the reader.

    >>> plain({"device": "cpu", "ratio": 0.3})
    'device cpu, ratio 0.3'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return " ".join(plain(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
