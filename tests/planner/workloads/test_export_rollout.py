"""The jax export of a rollout's plan: a sampling loop that runs, with the tokens of lcplan's own programs."""

import subprocess
import sys

import numpy as np

ROLLOUT = ["--workload", "sample", "--stages", "modelled", "--survivors", "1", "--out", "run"]
SAMPLE = [
    *ROLLOUT,
    "--model",
    "qwen3-tiny",
    "--prompt",
    "16",
    "--generate",
    "8",
    "--batch",
    "8",
    "--hw",
    "cpu-host",
    "--temperature",
    "0",
]
H100 = [*ROLLOUT, "--model", "qwen3-1.7b", "--prompt", "256", "--generate", "1024", "--batch", "512", "--hw", "dgx-h100"]


def run(folder, *arguments):
    command = [sys.executable, "rollout.py", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def exported(lcplan, *layout, check=False):
    assert lcplan("search", *SAMPLE, *layout)[0] == 0
    code, document, err = lcplan("export", "run", "--to", "jax", *(["--check"] if check else []))
    assert code == 0, err
    return document


def test_the_check_lowers_prefill_and_decode(lcplan):
    document = exported(lcplan, "--mesh", "fsdp=4,tensor=2", check=True)
    assert document["check"]["facts"]["programs"] == 2
    assert document["check"]["facts"]["seq_len"] == 24
    assert document["check"]["mismatches"] == []
    assert document["differences"] == []


def test_the_loop_samples_the_prompts_of_a_file(lcplan, tmp_path):
    exported(lcplan, "--devices", "2", "--mesh", "fsdp=2", "--parameters", "gathered-once", "--cache", "whole")
    prompts = np.arange(12 * 16).reshape(12, 16) % 2048
    np.save(tmp_path / "prompts.npy", prompts)
    done = run(tmp_path / "run" / "jax", "--batches", 2, "--prompts", tmp_path / "prompts.npy", "--out", tmp_path / "out.npy")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:2]] == ["batch 0", "batch 1"]
    samples = np.load(tmp_path / "out.npy")
    assert samples.shape == (16, 24)
    assert (samples[:, :16] == prompts[np.arange(16) % 12]).all()  # from the first row again after the last
    assert (samples[12:] == samples[:4]).all()  # the cache of the first batch leaves nothing behind
    assert len(np.unique(samples[:, 16:])) > 8

    np.save(tmp_path / "wrong.npy", prompts[:, :8])
    done = run(tmp_path / "run" / "jax", "--prompts", tmp_path / "wrong.npy")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        f"{tmp_path / 'wrong.npy'}: shape (12, 8); the plan takes rows of 16 token ids",
    )


def test_a_gpu_plan_has_the_launch_of_its_hardware(lcplan, tmp_path):
    assert lcplan("search", *H100, "--devices", "8")[0] == 0
    code, document, _ = lcplan("export", "run", "--to", "jax")
    assert code == 0
    assert document["launch"]["command"] == "python3 rollout.py"
    assert document["step_ratio"] == 1.0
    text = (tmp_path / "run" / "jax" / "rollout.py").read_text()
    assert 'KERNEL = "cudnn"' in text
    assert "BATCH, PROMPT, GENERATE = 512, 256, 1024" in text
    compile(text, "rollout.py", "exec")


def test_other_trainers_refuse_it_by_name(lcplan):
    assert lcplan("search", *H100, "--devices", "8")[0] == 0
    code, document, err = lcplan("export", "run", "--to", "megatron")
    assert (code, document) == (2, None)
    assert "a plan of --workload sample is not exported to Megatron-LM" in err
    assert "use --to jax" in err
