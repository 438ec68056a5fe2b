"""``--check``: the trainer's real parser on the written files, under the trainer's Python; does it read the plan back?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcplan.formats.errors import StageFailedError
from lcplan.strategy import AXES
from planner.export.python import python_of, variable_of
from planner.export.run import Export
from planner.measure.workers.process import clean_environment
from planner.trainers import Job
from planner.trainers.checking import lcplan_checker
from planner.trainers.checking.lcplan_checker import MARK
from planner.trainers.registry import checker

TIMEOUT_S = 300.0


@dataclass(frozen=True)
class CheckResult:
    """The verdict of the trainer's own code on the files."""

    package: str
    version: str
    python: str
    accepted: bool
    said: str
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)
    mismatches: tuple[str, ...] = ()
    """Values that the trainer reads differently from the plan."""

    @property
    def good(self) -> bool:
        """Accepted, and understood as meant."""
        return self.accepted and not self.mismatches

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "package": self.package,
            "version": self.version,
            "python": self.python,
            "accepted": self.accepted,
            "said": self.said,
            "mismatches": list(self.mismatches),
            "facts": self.facts,
            "seconds": self.seconds,
        }


def check_export(export: Export, folder: Path, *, python: str | None = None) -> CheckResult:
    """Return the verdict of the trainer's own code on the files in ``folder``.

    Raises
    ------
    StageFailedError
        The package is not installed in that Python, or the checker gave no answer (with its last words).
    """
    return check_exports([(export, folder)], python)[0]


def check_exports(exports: Sequence[tuple[Export, Path]], python: str | None = None) -> list[CheckResult]:
    """The same for many exports to one trainer, in one process that imports it once."""
    name = exports[0][0].translation.trainer.name
    command = python_of(name, python)
    answers = run_checker(command, checker(name), requests=[_request(export, folder) for export, folder in exports])
    if answers[0]["version"] == "not installed":
        raise StageFailedError(
            f"{answers[0]['package']} is not installed in {command}; give its Python with --toolchain, or set "
            f"{variable_of(name)}"
        )
    return [_result(data, export, python=command) for data, (export, _) in zip(answers, exports, strict=True)]


def _result(data: dict[str, Any], export: Export, *, python: str) -> CheckResult:
    mismatches = tuple(_mismatches(data["facts"], export.translation.job)) if data["accepted"] else ()
    return CheckResult(**data, python=python, mismatches=mismatches)


def run_checker(python: str, script: Path, *, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of one checker process, one a request."""
    try:
        done = subprocess.run(
            [python, lcplan_checker.__file__, str(script), json.dumps(requests)],
            env=clean_environment(tuple(requests[0].get("environment", {}).items())),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S * len(requests),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageFailedError(f"{python}: the check did not run: {error}") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if len(lines) != len(requests):
        words = " ".join((done.stderr or done.stdout).split())[-600:]
        raise StageFailedError(f"{python}: the check ended with code {done.returncode} and no answer: {words}")
    return [json.loads(line.removeprefix(MARK)) for line in lines]


def _request(export: Export, folder: Path) -> dict[str, Any]:
    return {
        "file": str(folder / export.main_file),
        "devices": export.translation.job.strategy.devices,
        "environment": _environment(export),
        **export.check_request,
    }


def _environment(export: Export) -> dict[str, str]:
    """The launch's own variables, with as many host devices for jax trainers and no search for accelerators."""
    job = export.translation.job
    variables = dict(export.launch.environment)
    if export.translation.jax:
        flags = variables.pop("XLA_FLAGS", "")
        count = f"--xla_force_host_platform_device_count={job.strategy.devices}"
        variables |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{flags} {count}".strip(), "TPU_SKIP_MDS_QUERY": "1"}
    return variables | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _mismatches(facts: dict[str, Any], job: Job) -> list[str]:
    """List the values that the trainer reads differently from the plan."""
    mesh = job.strategy.mesh
    wanted: dict[str, Any] = {
        "devices": job.strategy.devices,
        "seq_len": job.workload.seq_len,
        "global_batch": job.workload.global_batch,
        "microbatches": job.strategy.microbatches,
    }
    found = [
        f"{key}: the plan has {want}, the trainer {facts[key]}" for key, want in wanted.items() if facts.get(key, want) != want
    ]
    for axis in AXES:
        size = facts.get("mesh", {}).get(axis, getattr(mesh, axis))
        if size != getattr(mesh, axis):
            found.append(f"{axis}: the plan has {getattr(mesh, axis)}, the trainer {size}")
    experts = job.model.experts
    sizes = [] if experts is None else [experts.count, experts.active, experts.d_ff]
    if facts.get("experts", sizes) != sizes:
        found.append(f"experts: the plan's number, experts of a token and width are {sizes}, the trainer's {facts['experts']}")
    ranks = list(job.expert_ranks)
    if facts.get("expert_ranks", ranks) != ranks:
        words = "experts: the plan's expert ranks, and tensor ranks that split each expert, are"
        found.append(f"{words} {ranks}, the trainer's {facts['expert_ranks']}")
    if isinstance(facts.get("parameters"), int) and facts["parameters"] != job.model.parameters:
        found.append(f"parameters: the plan's model has {job.model.parameters}, the trainer's {facts['parameters']}")
    return found
