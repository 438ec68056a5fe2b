"""How torch trainers are launched: one torchrun per host, one process per device."""

from __future__ import annotations

from planner.trainers import Job

RENDEZVOUS_NOTE = "Set HEAD_NODE to the first host's address where there is more than one."


def torchrun(job: Job) -> tuple[str, ...]:
    """The launcher's words before the program's own."""
    local = min(job.hardware.node_size, job.strategy.devices)
    hosts = -(-job.strategy.devices // local)
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "${HEAD_NODE:-localhost}:29500")
    return ("torchrun", "--nnodes", str(hosts), "--nproc-per-node", str(local), *rendezvous)
