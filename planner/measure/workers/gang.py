"""A gang: several processes that run one program together, each with its own devices, under ``jax.distributed``.

The first process takes jobs from its parent and passes them to the others. All of them build and run the same step, and the
first one answers. Where nobody names an address, jax finds Slurm's or Open MPI's by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.text import whole_in

VARIABLE = "LCPLAN_GANG"
COORDINATOR = "JAX_COORDINATOR_ADDRESS"
RANKS = ("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""Variables with the rank of this process: of jax, of Slurm's srun, of Open MPI's mpirun."""
SIZES = ("JAX_NUM_PROCESSES", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
HEARTBEAT_S = 30
"""The others end this long after one of them died."""


class Gang(Frozen):
    """One process's place. ``coordinator`` None: jax asks the launcher."""

    coordinator: str | None = None
    processes: Annotated[int, Field(gt=1)]
    rank: Annotated[int, Field(ge=0)]
    devices_per_process: Annotated[int, Field(gt=0)]
    platform: Literal["cpu", "cuda"]
    wait_s: Annotated[int, Field(gt=0)] = 300
    """How long the others are waited for."""

    @property
    def devices(self) -> int:
        """Devices of all processes together."""
        return self.processes * self.devices_per_process

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the process that runs the program."""
        variables = {VARIABLE: self.model_dump_json(), "JAX_PLATFORMS": self.platform}
        if self.platform == "cpu":
            variables["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={self.devices_per_process}"
        return variables


class Place(Frozen):
    """A process among others that a launcher started. ``coordinator`` None: jax asks the launcher."""

    processes: Annotated[int, Field(gt=1)]
    rank: Annotated[int, Field(ge=0)]
    coordinator: str | None = None


def launched(environment: Mapping[str, str]) -> Place:
    """This process's place: from jax's own variables, else from those of Slurm or Open MPI.

    Raises
    ------
    BadInputError
        No launcher started it, or it is the only process.
    """
    for rank, size in zip(RANKS, SIZES, strict=True):
        told = [environment.get(size, ""), environment.get(rank, "")]
        processes, place = map(whole_in, told)
        if processes is not None and place is not None and place < processes and processes > 1:
            coordinator = environment.get(COORDINATOR) if rank == RANKS[0] else None
            return Place(processes=processes, rank=place, coordinator=coordinator)
    raise BadInputError(
        "neither srun nor mpirun started this as one of several processes; elsewhere set "
        f"{COORDINATOR}=HOST:PORT, {SIZES[0]} and {RANKS[0]} (from 0) in each"
    )


def here() -> Gang | None:
    """The gang of this worker process; None where it has no other members."""
    text = os.environ.get(VARIABLE)
    return Gang.model_validate_json(text) if text else None


def join(gang: Gang) -> None:
    """Meet the others; returns when all are there."""
    import jax

    if gang.platform == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        gang.coordinator,
        num_processes=gang.processes if gang.coordinator else None,
        process_id=gang.rank if gang.coordinator else None,
        initialization_timeout=gang.wait_s,
        heartbeat_timeout_seconds=HEARTBEAT_S,
    )


def together(requests: Iterable[str], answer: Callable[[str], None]) -> None:
    """Answer each request with all processes at once; only the first process reads ``requests``."""
    import jax

    if jax.process_index() == 0:
        for line in requests:
            answer(tell(line))
        tell("")
        return
    while line := tell(""):
        answer(line)


def tell(text: str) -> str:
    """The first process's ``text``, in every process."""
    import numpy as np
    from jax.experimental import multihost_utils

    data = np.frombuffer(text.encode(), np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    if not length:
        return ""
    mine = np.zeros(length, np.uint8)
    mine[: len(data)] = data[:length]
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(mine))).decode()


def agreed(verdict: bool) -> bool:
    """The first process's verdict, in every process: clocks differ, and steps must not."""
    import jax

    return tell("y" if verdict else "n") == "y" if jax.process_count() > 1 else verdict
