"""MaxText's own ``train_compile`` on the exported file: its real step, compiled for an absent TPU slice, and its memory."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.export.check import python_of, topology_words
from planner.export.run import Export
from planner.measure.workers.process import clean_environment
from planner.trainers.maxtext import export as maxtext

TIMEOUT_S = 1800.0
_FIELD = re.compile(r"(\w+)_size_in_bytes=(\d+)")


@dataclass(frozen=True)
class MaxTextCompile:
    """``memory_analysis()`` of MaxText's step, per device [bytes], beside what lcplan says of its own."""

    topology: str
    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    alias_bytes: int
    seconds: float

    @property
    def total_bytes(self) -> int:
        """Argument + output + temp - alias."""
        return self.argument_bytes + self.output_bytes + self.temp_bytes - self.alias_bytes

    def to_json(self) -> dict[str, Any]:
        """As scripts read it."""
        fields = ("topology", "argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "total_bytes", "seconds")
        return {name: getattr(self, name) for name in fields}


def train_compile(export: Export, folder: Path, *, python: str | None = None) -> MaxTextCompile:
    """Compile the exported configuration.

    Raises
    ------
    BadInputError
        Not a MaxText export for a whole TPU slice.
    StageFailedError
        MaxText could not compile it; its last words.
    """
    job = export.translation.job
    if export.translation.trainer.name != "maxtext" or job.hardware.kind != "tpu":
        raise BadInputError(
            "--compile runs MaxText's train_compile on a TPU topology; it needs --to maxtext and a plan for TPU"
        )
    if job.strategy.devices != job.hardware.devices:
        raise BadInputError(
            f"--compile: {job.hardware.name} has {job.hardware.devices} devices, the plan takes {job.strategy.devices}"
        )
    words = topology_words(job)
    module = "maxtext.trainers.pre_train.train_compile"
    command = [python_of("maxtext", python), "-m", module, maxtext.FILE, "log_config=false", *words]
    variables = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=clean_environment(tuple(variables.items())),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageFailedError(f"{command[0]}: train_compile did not run: {error}") from None
    return read_memory(done.stdout + done.stderr, topology=words[0].partition("=")[2], seconds=time.perf_counter() - start)


def read_memory(text: str, *, topology: str, seconds: float) -> MaxTextCompile:
    """The memory line of train_compile's output."""
    line = next((line for line in text.splitlines() if line.startswith("Memory analysis:")), None)
    if line is None:
        raise StageFailedError(f"MaxText's train_compile failed: {' '.join(text.split())[-800:]}")
    sizes = {name: int(value) for name, value in _FIELD.findall(line) if not name.startswith("host")}
    return MaxTextCompile(
        topology=topology,
        argument_bytes=sizes["argument"],
        output_bytes=sizes["output"],
        temp_bytes=sizes["temp"],
        alias_bytes=sizes["alias"],
        seconds=round(seconds, 1),
    )
