"""NVSHMEM from a search to a MaxText job and back, through the commands."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

SEARCH = (
    "search", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--devices", "32", "--stages", "modelled",
    "--mesh", "context=16,tensor=2", "--scheme", "ring", "--remat", "full", "--backend", "nvshmem", "--microbatches", "16",
    "--out", "run",
)  # fmt: skip
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"
SRUN = """#!/usr/bin/env bash
nodes=1 per=1
while [[ "$1" == --* ]]; do
  case "$1" in --nodes=*) nodes="${1#*=}" ;; --ntasks-per-node=*) per="${1#*=}" ;; esac
  shift
done
for ((rank = 0; rank < nodes * per; rank++)); do SLURM_PROCID=$rank SLURM_LOCALID=$((rank % per)) "$@"; done
"""
PYTHON = '#!/usr/bin/env bash\necho "$SLURM_PROCID $SLURM_LOCALID $XLA_FLAGS $NVSHMEM_SYMMETRIC_SIZE $3" >> "$PROCESSES"\n'


@pytest.fixture
def planned(lcplan):
    answer = lcplan(*SEARCH, "--for", "maxtext", "--for-jax", "0.10.1")
    assert answer.code == 0, answer.err
    return lcplan


def started(folder, script):
    """The processes that the script starts under a Slurm that runs them one after another."""
    tools = Path("tools")
    tools.mkdir()
    for name, text in (("srun", SRUN), ("python3", PYTHON)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    log = Path("processes").absolute()
    environment = {"PATH": f"{tools.absolute()}:{os.environ['PATH']}", "PROCESSES": str(log)}
    subprocess.run([Path(folder) / script], env=environment, check=True, timeout=60)
    return [line.split() for line in log.read_text().splitlines()]


@pytest.mark.parametrize(("trainer", "program"), [("maxtext", "maxtext.yml"), ("jax", "")])
def test_the_launch_file_starts_one_process_per_device(planned, trainer, program):
    assert planned("export", "run", "--to", trainer, "--jax", "0.10.1").code == 0
    processes = started(f"run/{trainer}", "launch.sh")
    assert [(int(rank), int(local)) for rank, local, *_ in processes] == [(rank, rank % 4) for rank in range(32)]
    assert {(flags, heap) for _, _, flags, heap, *_ in processes} == {(FLAG, "1G")}
    assert {rest[0] if rest else "" for *_, rest in ((*p[:4], p[4:]) for p in processes)} == {program}


def test_the_script_names_what_slurm_and_nvshmem_need(planned):
    answer = planned("export", "run", "--to", "maxtext", "--jax", "0.10.1", "--format", "json")
    launch = answer.json["launch"]
    assert launch["per"] == "job"
    assert launch["command"].startswith("srun --nodes=8 --ntasks-per-node=4 --gpus-per-node=4 python3 -m maxtext")
    script = Path("run/maxtext/launch.sh").read_text()
    assert script.splitlines()[1:4] == ["#SBATCH --nodes=8", "#SBATCH --ntasks-per-node=4", "#SBATCH --gpus-per-node=4"]
    assert 'LAUNCHER="mpirun -np 32 --npernode 4"' in script
    assert "libnvshmem_host.so" in script
    assert yaml.safe_load(Path("run/maxtext/maxtext.yml").read_text())["hardware"] == "gpu_multiprocess"


def test_the_exported_files_read_back_as_the_plan(planned):
    assert planned("export", "run", "--to", "maxtext", "--jax", "0.10.1").code == 0
    answer = planned("estimate", "--from-maxtext", "run/maxtext/launch.sh", "--hw", "gb200-nvl72", "--format", "json")
    assert answer.code == 0, answer.err
    plan = yaml.safe_load(Path("run/plan.yaml").read_text())
    assert answer.json["candidate"]["strategy"] == {"devices": 32, **plan["strategy"]}
    assert any("of jax 0.9.2 to 0.10.1 have it" in note for note in answer.json["imported"]["notes"])


def test_a_trainer_on_a_newer_jax_runs_nccl_instead(planned):
    document = planned("export", "run", "--to", "maxtext", "--format", "json").json
    assert document["as_run"]["strategy"]["backend"] == "nccl"
    assert [difference["plan"] for difference in document["differences"] if difference["name"] == "backend"] == ["nvshmem"]
    assert "NNODES" in document["launch"]["environment"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*SEARCH, "--for", "maxtext"), "jax 0.11.2, which MaxText runs on here, does not have this backend (--for-jax"),
        ((*SEARCH, "--for", "maxtext", "--for-jax", "0.8.2"), "jax 0.8.2, which MaxText runs on here, was not tried with"),
        ((*SEARCH, "--for", "maxtext", "--for-jax", "new"), "--for-jax new: not a version"),
        ((*SEARCH, "--for", "megatron", "--for-jax", "0.10.1"), "(megatron-core 0.19.2) does not run on jax"),
        ((*SEARCH, "--for-jax", "0.10.1"), "name the trainer with --for"),
    ],
)
def test_bad_input(lcplan, arguments, words):
    answer = lcplan(*arguments)
    assert answer.code == 2
    assert words in answer.err


def test_explain_shows_the_conditions_of_the_backend(planned):
    needs = planned("explain", "run", "--format", "json").json["backend_needs"]
    assert all(word in needs for word in ("each process has one device", "in one process", "in one NVLink domain"))
    assert "nvshmem: XLA assigns it to collective-permutes" in planned("explain", "run").out
