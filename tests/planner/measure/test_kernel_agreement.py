"""The attention kernel that a program runs is the kernel that the cost model prices."""

from itertools import product

import pytest

from cost_models.inputs.kernel_groups import kernel_groups
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.targets.target import Target
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import kernel_for
from planner.measure.workers.job import CompileJob

DEVICES = {"dgx-a100-80": "cuda", "dgx-h100": "cuda", "gb200-nvl72": "cuda", "tpu-v5p-64": "tpu", "cpu-host": "cpu"}
HEADS = (40, 64, 96, 100, 128, 192, 256)
LENGTHS = (1024, 4096, 65536)
ABLE = Toolchain(
    python="python",
    jax="0.10.1",
    backends={},
    versions={"jax": "0.10.1", "cuda12_plugin": "0.10.1", "cudnn": "9.28.0"},
    targets={"gpu": True, "tpu": True, "cpu": True},
)


def both(job):
    """The kernel that the program runs, and that the cost model prices."""
    platform = DEVICES[job.hardware.name]
    target = Target(name="any", rung="compiled:target", platform=platform, devices=job.strategy.devices)
    setting = Setting(job.model, job.hardware, job.workload, 1)
    ((priced, _),) = kernel_groups(setting, StrategyTable.from_strategies([job.strategy]))
    return kernel_for(job, target, toolchain=ABLE), priced.kernel


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("window", [None, 1024])
@pytest.mark.parametrize("document_len", [None, 512])
def test_program_and_cost_model_agree(device, window, document_len):
    seen = set()
    for head_dim, seq_len, context, precision in product(HEADS, LENGTHS, (1, 4, 16), ("bf16", "fp32")):
        spec = model("llama3-8b").model_copy(update={"head_dim": head_dim, "sliding_window": window})
        workload = Workload(seq_len=seq_len, global_batch=8, precision=precision, document_len=document_len)
        job = CompileJob(
            model=spec, hardware=hardware(device), workload=workload, strategy=Strategy(mesh=Mesh(context=context))
        )
        program, priced = both(job)
        assert program == priced, (head_dim, seq_len, context, precision)
        seen.add(program)
    assert seen == {"cuda": {"cudnn", "blockwise"}, "tpu": {"splash", "blockwise"}, "cpu": {"blockwise"}}[DEVICES[device]]


@pytest.mark.parametrize("device", DEVICES)
def test_they_agree_on_latent_attention(device):
    job = CompileJob(
        model=model("deepseek-v3"),
        hardware=hardware(device),
        workload=Workload(seq_len=8192, global_batch=8),
        strategy=Strategy(mesh=Mesh(context=2)),
    )
    program, priced = both(job)
    assert program == priced == ("cudnn" if device in ("dgx-h100", "gb200-nvl72") else "blockwise")


def test_a_toolchain_without_cudnn_and_a_stand_in_for_the_device_run_blockwise():
    job = CompileJob(
        model=model("llama3-8b"),
        hardware=hardware("dgx-h100"),
        workload=Workload(seq_len=8192, global_batch=8),
        strategy=Strategy(mesh=Mesh(context=2)),
    )
    target = Target(name="any", rung="compiled:target", platform="cuda", devices=2)
    bare = ABLE.model_copy(update={"versions": {"jax": "0.10.1"}})
    assert kernel_for(job, target, toolchain=ABLE) == "cudnn"
    assert kernel_for(job, target, toolchain=bare) == "blockwise"
    assert kernel_for(job, target.model_copy(update={"platform": "cpu"}), toolchain=ABLE) == "blockwise"
