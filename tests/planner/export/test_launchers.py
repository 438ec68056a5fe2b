"""The files that start a job: each starts the trainer on every host with the right rank, first host and environment."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from planner.cli.main import run
from planner.export.launchers import LAUNCHERS
from planner.trainers import trainer_names

HOSTS, EACH = 2, 8
STUB = """#!/usr/bin/env bash
printf '%s\\n' "$(basename "$0") $*" "NODE_RANK=${NODE_RANK:-}" "HEAD_NODE=${HEAD_NODE:-}" \\
  "JAX_COORDINATOR_IP=${JAX_COORDINATOR_IP:-}" "JAX_LOCAL_DEVICE_IDS=${JAX_LOCAL_DEVICE_IDS:-}" > "$RECORDS/${HOST_NUMBER:-0}"
"""
SRUN = f"""#!/usr/bin/env bash
while [[ "$1" == --* ]]; do shift; done
for host in $(seq 0 {HOSTS - 1}); do SLURM_NODEID=$host HOST_NUMBER=$host "$@"; done
"""
SCONTROL = "#!/usr/bin/env bash\nprintf 'node-a\\nnode-b\\n'\n"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Files of every trainer and launcher for one plan on two hosts, by both names."""
    folder = tmp_path_factory.mktemp("exports")
    search = (
        "search --model llama3-8b --seq 8k --hw dgx-h100x2 --devices 16 --global-batch 16 --mesh data=2,fsdp=8 --remat full"
    )
    assert run([*search.split(), "--stages", "modelled", "--backend", "nccl", "--out", str(folder / "run")]) == 0

    def files(trainer, launcher):
        out = folder / f"{trainer}-{launcher}"
        code = run(["export", str(folder / "run"), "--to", trainer, "--launcher", launcher, "--out", str(out), "--force"])
        assert code == 0, (trainer, launcher)
        return out

    return {(trainer, launcher): files(trainer, launcher) for trainer in trainer_names() for launcher in LAUNCHERS}


@pytest.fixture
def cluster(tmp_path):
    """Stubs of Slurm and of every program that a launch starts; and where they record their calls."""
    programs, records = tmp_path / "bin", tmp_path / "records"
    programs.mkdir()
    records.mkdir()
    for name, text in {
        "srun": SRUN,
        "scontrol": SCONTROL,
        **dict.fromkeys(("python3", "torchrun", "accelerate"), STUB),
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "RECORDS": str(records)}

    def started(command, **variables):
        done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [dict(zip(("argv", *KEYS), _values(file), strict=True)) for file in sorted(records.iterdir())]

    return started


KEYS = ("NODE_RANK", "HEAD_NODE", "JAX_COORDINATOR_IP", "JAX_LOCAL_DEVICE_IDS")


def _values(file):
    first, *rest = file.read_text().splitlines()
    return [first, *(line.partition("=")[2] for line in rest)]


@pytest.mark.parametrize("trainer", trainer_names())
def test_slurm_starts_every_host_with_its_rank(exported, cluster, trainer):
    folder = exported[trainer, "slurm"]
    script = folder / "train.sbatch"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    options = re.findall(r"^#SBATCH (.*)$", script.read_text(), re.MULTILINE)
    assert {f"--nodes={HOSTS}", "--ntasks-per-node=1", f"--gpus-per-node={EACH}"} <= set(options)
    calls = cluster(["bash", str(script)], SLURM_SUBMIT_DIR=str(folder), SLURM_JOB_NODELIST="node-[a-b]")
    assert [call["NODE_RANK"] for call in calls] == ["0", "1"]
    assert {call["HEAD_NODE"] for call in calls} == {call["JAX_COORDINATOR_IP"] for call in calls} == {"node-a"}
    assert {call["JAX_LOCAL_DEVICE_IDS"] for call in calls} == {"0,1,2,3,4,5,6,7"}
    for call in calls:
        words = shlex.split(call["argv"])
        if words[0] == "torchrun":
            assert words[words.index("--rdzv-endpoint") + 1] == "node-a:29500"
            assert words[words.index("--nnodes") + 1] == str(HOSTS)
        if words[0] == "accelerate":
            assert words[words.index("--machine_rank") + 1] == call["NODE_RANK"]
            assert words[words.index("--main_process_ip") + 1] == "node-a"


@pytest.mark.parametrize("trainer", trainer_names())
def test_a_jobset_starts_every_host_with_its_rank(exported, cluster, trainer, tmp_path):
    texts, jobset = yaml.safe_load_all((exported[trainer, "kubernetes"] / "jobset.yaml").read_text())
    name = jobset["metadata"]["name"]
    [workers] = jobset["spec"]["replicatedJobs"]
    job = workers["template"]["spec"]
    assert (job["parallelism"], job["completions"]) == (HOSTS, HOSTS)
    [container] = job["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": EACH}
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for file, text in texts["data"].items():
        assert text == (exported[trainer, "kubernetes"] / file).read_text()
        (mounted / file).write_text(text)
    command = [word.replace("/lcplan", str(mounted)) for word in container["command"]]
    for rank in range(HOSTS):
        fixed = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        calls = cluster(command, **fixed, NODE_RANK=str(rank), HOST_NUMBER=str(rank))
        assert calls[rank]["NODE_RANK"] == str(rank)
        assert calls[rank]["HEAD_NODE"] == f"{name}-hosts-0-0.{name}"
    [index] = [one for one in container["env"] if one["name"] == "NODE_RANK"]
    assert index["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")


def test_names_are_those_of_dns(exported):
    for (_, launcher), folder in exported.items():
        if launcher == "kubernetes":
            names = re.findall(r"^  name: (\S+)$", (folder / "jobset.yaml").read_text(), re.MULTILINE)
            assert names
            assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) for name in names)


def test_a_segment_is_an_option_of_the_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search = "search --model llama3-8b --seq 64k --hw gb200-nvl72x2 --devices 128 --segment 64 --remat full --backend nccl"
    assert run([*search.split(), "--stages", "modelled", "--out", "run"]) == 0
    assert run(["export", "run", "--to", "maxtext", "--launcher", "slurm", "--out", "out", "--force"]) == 0
    text = Path("out/train.sbatch").read_text()
    assert "#SBATCH --nodes=32\n#SBATCH --segment=16\n" in text


def test_slurm_does_not_start_a_tpu(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    search = "search --model llama3-8b --seq 8k --hw tpu-v5p-64 --remat full --stages modelled --out run"
    assert run(search.split()) == 0
    assert run(["export", "run", "--to", "maxtext", "--launcher", "slurm", "--out", "out"]) == 2
    assert "TPU slices are started by --launcher kubernetes" in capsys.readouterr().err
    assert not Path("out").exists()
