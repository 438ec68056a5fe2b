"""Files that start an export on a cluster: a job of Slurm, or a JobSet of Kubernetes, around the folder's ``launch.sh``.

``launch.sh`` runs on one host and takes the job's facts from variables; these files set them on each host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import yaml

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers.common.export_files import LAUNCH_FILE, Launch, run_name, title
from planner.trainers.common.interface import Job
from planner.trainers.common.launchers import placement_notes, slurm_placement
from planner.trainers.common.translate import Translation

SBATCH_FILE, JOBSET_FILE = "train.sbatch", "jobset.yaml"
HEAD = "HEAD_NODE"
"""Variable of the first host's address."""
RANK = "NODE_RANK"
"""Variable of a host's number in the job."""
COORDINATOR = "JAX_COORDINATOR_IP"
"""MaxText's variable of the first host's address."""
LOCAL_DEVICES = "JAX_LOCAL_DEVICE_IDS"
"""jax's variable of the devices of a process: under Slurm a process takes one device unless it is set (jax.distributed)."""
IMAGE = "IMAGE-OF-THE-TRAINER"
"""Placeholder in a JobSet."""
MOUNT = "/lcplan"
_WORKERS = "hosts"
_FOUND_BY_JAX = ("jax", "levanter")
"""Trainers whose hosts find each other by jax.distributed's own detection of clusters."""
_LONGEST_NAME = 40
"""Characters of a JobSet's name that leave its pods' names below the 63 of a DNS label."""


def launcher_files(name: str, translation: Translation, launch: Launch, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that launcher ``name`` adds to the files of an export.

    Raises
    ------
    BadInputError
        An unknown launcher, or one that does not start jobs on this hardware.
    """
    if name not in LAUNCHERS:
        raise BadInputError(f"--launcher: unknown launcher {name!r}{hint(name, tuple(LAUNCHERS))}")
    return LAUNCHERS[name](translation, launch, files)


def _comments(job: Job, launch: Launch) -> list[str]:
    """Return the notes for a person; notes on variables that the files set are left out."""
    return [note for note in (*placement_notes(job), *launch.notes) if RANK not in note and HEAD not in note]


def _slurm(translation: Translation, launch: Launch, files: Mapping[str, str]) -> dict[str, str]:
    job = translation.job
    if job.hardware.kind == "tpu":
        raise BadInputError("--launcher slurm: TPU slices are started by --launcher kubernetes")
    if launch.slurm:  # its launch.sh is a job of Slurm by itself: one process per device
        return {SBATCH_FILE: files[LAUNCH_FILE]}
    hosts, each = job.hosts, job.devices_per_host
    segment = [option for option in slurm_placement(job) if option.startswith("--segment")]
    options = [f"--job-name={run_name(translation)}", f"--nodes={hosts}", *segment, "--ntasks-per-node=1", "--exclusive"]
    options += [f"--gpus-per-node={each}"] * (job.hardware.kind == "gpu") + ["--output=%x-%j.out"]
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH {option}" for option in options), f"# {title(translation)}"]
    lines += ["# Submit it in this folder: sbatch --account=ACCOUNT --partition=PARTITION train.sbatch"]
    lines += [f"# {note}" for note in _comments(job, launch)]
    lines += [
        "set -euo pipefail",
        'cd "${SLURM_SUBMIT_DIR:-.}"',
        f'{HEAD}="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"',
        f"export {HEAD}",
        f'export {COORDINATOR}="${HEAD}"',
        f"export {LOCAL_DEVICES}={','.join(map(str, range(each)))}",
        f'exec srun --kill-on-bad-exit=1 bash -c \'{RANK}="$SLURM_NODEID" exec bash {LAUNCH_FILE} "$@"\' {LAUNCH_FILE} "$@"',
        "",
    ]
    return {SBATCH_FILE: "\n".join(lines)}


def _kubernetes(translation: Translation, launch: Launch, files: Mapping[str, str]) -> dict[str, str]:
    job = translation.job
    hosts, each = job.hosts, job.devices_per_host
    if launch.slurm:
        raise BadInputError(
            "--launcher kubernetes: the plan needs one process per device (NVSHMEM), which Slurm or Open MPI starts; "
            "use --launcher slurm, or a plan with --backend nccl"
        )
    name = _dns_name(run_name(translation))
    first = f"{name}-{_WORKERS}-0-0.{name}"
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    variables = [{"name": variable, "value": first} for variable in (HEAD, COORDINATOR)]
    resource = "google.com/tpu" if job.hardware.kind == "tpu" else "nvidia.com/gpu"
    container: dict[str, Any] = {
        "name": "trainer",
        "image": IMAGE,
        "command": ["bash", f"{MOUNT}/{LAUNCH_FILE}"],
        "env": [*variables, {"name": RANK, "valueFrom": index}],
        "resources": {"limits": {resource: each}} if job.hardware.kind != "cpu" else {},
        "volumeMounts": [{"name": "files", "mountPath": MOUNT}, {"name": "shared-memory", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    volumes = [
        {"name": "files", "configMap": {"name": name, "defaultMode": 0o755}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
    ]
    pod = {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes}}
    template = {"spec": {"parallelism": hosts, "completions": hosts, "backoffLimit": 0, "template": pod}}
    workers = {"name": _WORKERS, "replicas": 1, "template": template}
    documents = (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(files)},
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name},
            "spec": {"failurePolicy": {"maxRestarts": 0}, "replicatedJobs": [workers]},
        },
    )
    comments = [title(translation), f"Set {IMAGE} to an image that has the trainer, then: kubectl apply -f {JOBSET_FILE}"]
    comments += _comments(job, launch)
    if translation.trainer.name in _FOUND_BY_JAX and hosts > 1:
        comments.append("jax asks Kubernetes for the hosts: the image needs jax[k8s], and its account reads pods and jobs.")
    head = "".join(f"# {line}\n" for line in comments)
    return {JOBSET_FILE: head + yaml.dump_all(documents, Dumper=_Blocks, sort_keys=False, width=10**6)}


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Blocks.add_representer(str, _block)


def _dns_name(text: str) -> str:
    """Return a name of lower-case letters, digits and dashes."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return kept[:_LONGEST_NAME].strip("-")


LAUNCHERS: Mapping[str, Callable[[Translation, Launch, Mapping[str, str]], dict[str, str]]] = MappingProxyType(
    {"slurm": _slurm, "kubernetes": _kubernetes}
)
"""The files of each launcher."""
