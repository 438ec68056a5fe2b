"""MaxText's ``train_compile``: its real step, compiled for an absent TPU slice."""

from __future__ import annotations

import re
from types import MappingProxyType

from planner.trainers import Job
from planner.trainers.common.own_compile import OwnCompiler
from planner.trainers.maxtext.facts import FILE

_FIELD = re.compile(r"(\w+)_size_in_bytes=(\d+)")
_MODULE = "maxtext.trainers.pre_train.train_compile"


def topology(job: Job) -> str:
    """MaxText's name of the TPU slice that the job runs on."""
    chips = job.hardware.name.removeprefix("tpu-").partition("x")[0] if job.hardware.domains > 1 else job.hardware.name[4:]
    return chips.replace("7x-", "tpu7x-") if chips.startswith("7x") else chips


def topology_words(job: Job) -> tuple[str, ...]:
    """The slices as MaxText's validation and its ``train_compile`` take them."""
    slices = max(1, job.strategy.devices // job.hardware.domain_size)
    return (f"compile_topology={topology(job)}", f"compile_topology_num_slices={slices}")


def read_memory(text: str) -> dict[str, int] | None:
    """The memory line of the output."""
    line = next((line for line in text.splitlines() if line.startswith("Memory analysis:")), None)
    if line is None:
        return None
    return {name: int(value) for name, value in _FIELD.findall(line) if not name.startswith("host")}


COMPILER = OwnCompiler(
    label="MaxText",
    command="train_compile",
    target=topology,
    words=lambda job: ("-m", _MODULE, FILE, "log_config=false", *topology_words(job)),
    environment=MappingProxyType({"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}),
    read_memory=read_memory,
)
