"""The jax export of an RL plan: a loop of rollout, reward, advantages and update that runs, and learns a toy task."""

import subprocess
import sys

import pytest

RL = ["--workload", "rl", "--model", "qwen3-tiny", "--hw", "cpu-host", "--prompt", "4", "--generate", "4"]
SEARCH = ["search", *RL, "--stages", "modelled", "--survivors", "1", "--remat", "full", "--cache", "whole", "--out", "run"]
H100 = ["--workload", "rl", "--model", "qwen3-1.7b", "--hw", "dgx-h100", "--prompt", "256", "--generate", "1024"]


def exported(lcplan, *options):
    assert lcplan(*SEARCH, *options)[0] == 0
    code, document, err = lcplan("export", "run", "--to", "jax")
    assert code == 0, err
    assert document["launch"]["command"] == "python3 rl_loop.py"
    return document


def rewards(folder, *arguments):
    """The mean reward of each iteration of the exported loop."""
    command = [sys.executable, "rl_loop.py", "--learning-rate", "0.01", "--updates", "4", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"iteration {number}" for number in range(len(lines))]
    return [float(line.split("reward ")[1].split(",")[0]) for line in lines]


def test_the_loop_runs_and_its_reward_rises(lcplan, tmp_path):
    exported(lcplan, "--batch", "1024", "--devices", "2", "--mesh", "fsdp=2", "--rollout-mesh", "fsdp=2")
    found = rewards(tmp_path / "run" / "jax", "--iterations", "3")
    assert found[0] == pytest.approx(0.5, abs=0.05)  # half of the token ids are even
    assert found[2] > found[0] + 0.05  # 4,096 tokens have a standard error of 0.008


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--mesh", "fsdp=4,tensor=2", "--rollout-mesh", "data=4,tensor=2"],
        ["--mesh", "fsdp=2,context=2,tensor=2", "--rollout-mesh", "tensor=8", "--scheme", "ring-zigzag"],
        ["--mesh", "fsdp=8", "--rollout-mesh", "fsdp=8", "--kl-coefficient", "0.01", "--old-log-probs", "recomputed"],
    ],
)
def test_the_reward_rises_on_eight_devices(lcplan, tmp_path, options):
    exported(lcplan, "--batch", "1024", "--devices", "8", *options)
    found = rewards(tmp_path / "run" / "jax", "--iterations", "3")
    assert found[2] > found[0] + 0.05


def test_the_check_lowers_every_program(lcplan):
    assert lcplan(*SEARCH, "--batch", "8", "--devices", "2", "--mesh", "fsdp=2", "--rollout-mesh", "tensor=2")[0] == 0
    code, document, err = lcplan("export", "run", "--to", "jax", "--check")
    assert code == 0, err
    assert document["check"]["facts"]["programs"] == 4  # move, prefill, decode, update
    assert document["check"]["mismatches"] == []


def test_a_gpu_plan_becomes_a_loop_with_its_sizes(lcplan, tmp_path):
    asked = ["search", *H100, "--batch", "252", "--devices", "4", "--stages", "modelled", "--survivors", "1", "--out", "run"]
    assert lcplan(*asked)[0] == 0
    assert lcplan("export", "run", "--to", "jax")[0] == 0
    text = (tmp_path / "run" / "jax" / "rl_loop.py").read_text()
    compile(text, "rl_loop.py", "exec")
    assert "BATCH, PROMPT, GENERATE = 252, 256, 1024" in text
    assert "GROUP = 7 " in text  # the largest group up to 8 that divides the batch
    assert 'KERNEL = "cudnn"' in text
