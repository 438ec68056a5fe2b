"""What an exporter gives back: files, the command that runs them, its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lcplan import __version__
from lcplan.evidence.plan import Plan
from lcplan.formats.units import format_tokens
from planner.trainers import Translation

LAUNCH_FILE = "launch.sh"


@dataclass(frozen=True)
class Launch:
    """How the files are run: one ``command`` a process (or a node, as ``per`` says) with ``environment`` set."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    per: str = "host"
    notes: tuple[str, ...] = ()
    """What the user still has to fill in."""

    @property
    def line(self) -> str:
        """The command as a person types it."""
        return " ".join(self.command)


@dataclass(frozen=True)
class Written:
    """The files of one export, by name, and how to run them."""

    files: Mapping[str, str]
    launch: Launch
    check: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the job that the trainer's checker asks for, besides the file and the number of devices."""


Exporter = Callable[[Translation, Plan], Written]


def title(translation: Translation) -> str:
    """The first line of every file that can hold a comment."""
    job = translation.job
    what = (
        f"{job.model.name}, {format_tokens(job.workload.seq_len)} tokens, {job.strategy.devices} x {job.hardware.device.name}"
    )
    return f"Written by lcplan {__version__} for {translation.trainer.title}: {what}"


def run_name(translation: Translation) -> str:
    """A name for the run that is safe in paths."""
    job = translation.job
    text = f"lcplan-{job.model.name}-{format_tokens(job.workload.seq_len)}-{job.strategy.devices}"
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in text)


def launch_script(translation: Translation, launch: Launch) -> str:
    """The launch line as a shell script; variables that are already set win."""
    lines = ["#!/usr/bin/env bash", f"# {title(translation)}", f"# Run once on every {launch.per}."]
    lines += [f"# {note}" for note in launch.notes]
    lines += ["set -euo pipefail", 'cd "$(dirname "$0")"']
    lines += [f'export {name}="{value}"' for name, value in launch.environment.items()]
    command = " \\\n  ".join(_grouped(launch.command))
    return "\n".join([*lines, f'exec {command} "$@"', ""])


def _grouped(words: tuple[str, ...]) -> list[str]:
    """The program with its module on one line, then each option with its values."""
    groups = [words[0]]
    for word in words[1:]:
        if word.startswith("--") or (len(groups) == 1 and groups[0].count(" ") >= 2):
            groups.append(word)
        else:
            groups[-1] += f" {word}"
    return groups


def yaml_scalar(value: object) -> str:
    """A value as YAML writes it on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n").removesuffix("\n...")
