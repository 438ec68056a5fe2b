"""The result of an exporter: files, the command that runs them, its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lcplan import __version__
from lcplan.evidence.plan import Plan
from lcplan.formats.text import shell_text
from lcplan.formats.units import format_tokens
from planner.trainers import Translation
from planner.trainers.common.launchers import placement_notes

LAUNCH_FILE = "launch.sh"


@dataclass(frozen=True)
class Launch:
    """The way to run the files: one ``command`` for each ``per`` (host, process, node or job) with ``environment`` set."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Values as they are: no character of theirs means anything to a shell."""
    expanded: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values lcplan writes for the shell to expand; no text of a plan is in them."""
    per: str = "host"
    notes: tuple[str, ...] = ()
    """Values that the user still has to fill in."""
    slurm: tuple[str, ...] = ()
    """Options of srun and sbatch where the script itself starts all processes of the job."""

    @property
    def line(self) -> str:
        """The command as a person types it."""
        return " ".join((*(("srun", *self.slurm) if self.slurm else ()), *self.command))

    @property
    def where(self) -> str:
        """Place to run the command, in words."""
        return f"once for the {self.per} (sbatch {LAUNCH_FILE} in this folder)" if self.slurm else f"on every {self.per}"


@dataclass(frozen=True)
class Written:
    """The files of one export, by name, and how to run them."""

    files: Mapping[str, str]
    launch: Launch
    check: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the job that the trainer's checker asks for, besides the file and the number of devices."""
    main_file: str = ""
    """The file that the launch command takes; empty: the one that the trainer's record names."""


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
    """The launch line as a shell script."""
    once = "" if launch.slurm else "once "
    notes = (*placement_notes(translation.job), *launch.notes)
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH {option}" for option in launch.slurm)]
    lines += [f"# {title(translation)}", f"# Run {once}{launch.where}.", *(f"# {note}" for note in notes)]
    lines += ["set -euo pipefail", *_folder(launch)]
    lines += [f"export {name}={shell_text(value)}" for name, value in launch.environment.items()]
    lines += [f'export {name}="{value}"' for name, value in launch.expanded.items()]
    starter = f"${{LAUNCHER:-srun {' '.join(launch.slurm)}}} " if launch.slurm else ""
    command = " \\\n  ".join(_grouped(launch.command))
    return "\n".join([*lines, f'exec {starter}{command} "$@"', ""])


def _folder(launch: Launch) -> list[str]:
    """Lines that go to the folder of the files; sbatch runs a copy of the script that is elsewhere."""
    if not launch.slurm:
        return ['cd "$(dirname "$0")"']
    return [f'cd "$(dirname "$0")"; [ -f {LAUNCH_FILE} ] || cd "$SLURM_SUBMIT_DIR"']


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
