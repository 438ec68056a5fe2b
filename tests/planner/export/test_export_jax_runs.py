"""The jax export runs: mesh, shardings, policy and flags of the plan, our own step, on 8 host devices."""

import ast
import os
import subprocess
import sys

import pytest

from planner.export.run import export_plan
from planner.trainers import Job
from planner.trainers.jax.export import parameter_specs


@pytest.fixture
def tiny(new_plan):
    return new_plan(
        "llama-tiny", "cpu-host", seq=256, batch=4, fsdp=2, context=2, tensor=2, microbatches=2, loss_chunk_tokens=32
    )


def run(folder, *arguments: str) -> subprocess.CompletedProcess:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, str(folder / "train_step.py"), *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=300, check=False)


def test_the_exported_module_trains(tiny, tmp_path):
    for name, text in export_plan(tiny, "jax").files.items():
        (tmp_path / name).write_text(text)
    done = run(tmp_path, "--steps", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["step 0", "step 1", "step 2"]
    losses = [float(line.split()[3].rstrip(",")) for line in lines]
    assert losses[2] < losses[0]  # AdamW on one batch learns it
    assert losses[0] == pytest.approx(7.6, abs=0.6)  # ln 2048 = 7.62 for random tokens


def test_flags_are_set_before_jax_is_imported(tiny):
    tree = ast.parse(export_plan(tiny, "jax").files["train_step.py"])
    lines = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "jax" for alias in node.names):
            lines["jax"] = node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.environ.setdefault":
            lines["environment"] = node.lineno
    assert lines["environment"] < lines["jax"]


def test_too_few_devices_are_one_clear_line(tiny, tmp_path):
    for name, text in export_plan(tiny, "jax").files.items():
        (tmp_path / name).write_text(text.replace("device_count=8", "device_count=4"))
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "the plan takes 8 devices; jax sees 4"


@pytest.mark.parametrize(("model", "tensor"), [("llama-tiny", 2), ("llama-tiny", 8), ("qwen3-tiny", 2), ("qwen2.5-tiny", 1)])
def test_its_shardings_are_those_of_the_step(new_plan, model, tensor):
    import jax
    from flax import nnx
    from jax.sharding import PartitionSpec as P

    from strategies.inputs.step_spec import StepSpec
    from strategies.model.decoder import Decoder
    from strategies.parallel.placement import partition_specs

    plan = new_plan(model, "cpu-host", seq=256, batch=1, tensor=tensor, loss_chunk_tokens=32)
    spec = StepSpec(model=plan.request.model, workload=plan.request.workload, strategy=plan.strategy, kernel="blockwise")
    _, params = nnx.split(nnx.eval_shape(lambda: Decoder(spec, nnx.Rngs(params=0))), nnx.Param)
    own = {}
    for path, split in jax.tree_util.tree_leaves_with_path(partition_specs(spec, params), is_leaf=lambda x: isinstance(x, P)):
        names = [part.key for part in path if isinstance(part, jax.tree_util.DictKey)]
        own[names[-1]] = split
    job = Job(plan.request.model, plan.request.hardware, plan.request.workload, plan.strategy)
    written = {name: eval(text, {"P": P}) for name, (text, _) in parameter_specs(job).items()}  # noqa: S307 (our own text)
    assert written.items() <= own.items()
    matrices = {name for name, split in own.items() if any(part is not None for part in split) and not name.endswith("bias")}
    assert set(written) == matrices
