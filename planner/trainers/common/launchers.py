"""How jobs are launched: torchrun, and the placement on several domains (racks, TPU slices) in the options of schedulers."""

from __future__ import annotations

from lcplan.spec.segments import domains_of, segment_of
from planner.trainers.common.interface import Job

RENDEZVOUS_NOTE = "Set HEAD_NODE to the first host's address where there is more than one."


def torchrun(job: Job) -> tuple[str, ...]:
    """The launcher's words before the program's own."""
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "${HEAD_NODE:-localhost}:29500")
    return ("torchrun", "--nnodes", str(job.hosts), "--nproc-per-node", str(job.devices_per_host), *rendezvous)


def slurm_placement(job: Job) -> tuple[str, ...]:
    """Options of sbatch and srun that give the job as many hosts of each domain as the plan; empty where one host is a domain.

    Source: Slurm, sbatch ``--segment`` (nodes of each block under topology/block).
    """
    segment, domains = _segment(job)
    node = job.hardware.node_size
    if job.hardware.kind != "gpu" or domains == 1 or segment <= node:
        return ()
    return (f"--nodes={domains * segment // node}", f"--segment={segment // node}")


def placement_notes(job: Job) -> tuple[str, ...]:
    """Lines on where the devices have to be; empty for a job in one domain, or whose domains are single hosts."""
    segment, domains = _segment(job)
    hardware, node = job.hardware, job.hardware.node_size
    if domains == 1 or (hardware.kind != "tpu" and segment <= node):
        return ()
    if hardware.kind == "tpu":
        return (
            f"Placement: {domains} slices of {segment} devices each; ranks fill one slice after the other.",
            f"Kubernetes: a JobSet with {domains} replicated jobs, one per slice "
            "(alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool).",
        )
    hosts = segment // node
    return (
        f"Placement: {segment} devices ({hosts} of {hardware.domain_size // node} hosts) of each of {domains} "
        f"{hardware.domain_link.name} domains; ranks fill one domain after the other.",
        f"Slurm: {' '.join(slurm_placement(job))} (topology/block); with topology/tree --switches={domains}.",
        "Kubernetes: Kueue's topology-aware scheduling, kueue.x-k8s.io/podset-slice-required-topology: the rack's node label, "
        f"kueue.x-k8s.io/podset-slice-size: {hosts}.",
    )


def _segment(job: Job) -> tuple[int, int]:
    """Devices of each domain, and domains."""
    hardware, strategy = job.hardware, job.strategy
    devices, stated = strategy.devices, strategy.segment
    return segment_of(hardware, devices, stated), domains_of(hardware, devices, stated)
