"""AMD GPUs as targets: what doctor finds, the target's description, and one real compile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measuring import MakeJob

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.jobs import compile_jobs
from planner.measure.rocm import plugin
from planner.measure.rocm.differences import ATTENTION, STAND_INS, differences
from planner.measure.targets.target import target_for
from planner.measure.targets.toolchain import ROCM_WAY_OUT, Toolchain, probe
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits

LIMITS = PoolLimits(jobs=2, wall_s=300)
TOOLCHAIN = Toolchain(
    python="python",
    jax="0.10.1",
    versions={"jax": "0.10.1", "rocm7_pjrt": "0.10.1"},
    targets={"rocm": True},
    backends={"rccl": True},
)
NEEDED = '"jaxlib": "0.10.1", "flax": "0.12", "optax": "0.2", "pydantic": "2", "pyyaml": "6", "jaxtyping": "0.3", "numpy": "2"'


def rocm_verdict(folder: Path, versions: str) -> object:
    file = folder / "python"
    file.write_text(f'#!/bin/sh\ncat <<\'END\'\n{{"python": "3.12.1", {NEEDED}, {versions}}}\nEND\n')
    file.chmod(0o755)
    found = probe(file)
    assert found.backends["rccl"] == found.targets["rocm"]
    return found.targets["rocm"]


@pytest.mark.parametrize(
    ("versions", "verdict"),
    [
        ('"jax": "0.10.1"', f"no XLA for AMD GPUs: {ROCM_WAY_OUT}"),
        ('"jax": "0.10.1", "rocm7_pjrt": "0.10.1.post1"', True),
        ('"jax": "0.12.0", "rocm10_pjrt": "0.12.0"', True),
        (
            '"jax": "0.10.1", "rocm7_pjrt": "0.12.0"',
            f"jax-rocm7-pjrt 0.12.0 does not go with jax 0.10.1; install the same version of both: {ROCM_WAY_OUT}",
        ),
        (
            '"jax": "0.8.2", "rocm7_pjrt": "0.8.2"',
            f"jax 0.8.2 cannot compile for an absent GPU; 0.9.2 and newer can: {ROCM_WAY_OUT}",
        ),
    ],
)
def test_doctor_finds_the_compiler_or_names_what_is_missing(tmp_path: Path, versions: str, verdict: object) -> None:
    assert rocm_verdict(tmp_path, versions) == verdict


@pytest.mark.parametrize(
    ("hardware", "arch", "cores"),
    [("mi300x", "gfx942", 304), ("mi325x", "gfx942", 304), ("mi350x", "gfx950", 256), ("mi355x", "gfx950", 256)],
)
def test_the_target_is_the_catalogues_device(hardware: str, arch: str, cores: int) -> None:
    strategy = Strategy(mesh=Mesh(context=8), backend="rccl")
    target = target_for(strategy, catalog.hardware(f"{hardware}x4"), toolchain=TOOLCHAIN)
    assert (target.platform, target.kind, target.compiler, target.rung) == ("rocm", "gpu", "rocm", "compiled:target")
    assert target.topology == "1x1x8"  # a node of eight is one domain of fast links
    assert target.target_config is not None
    for line in (
        f'rocm_compute_capability {{ gcn_arch_name: "{arch}:sramecc+:xnack-" }}',
        "threads_per_warp: 64",
        f"core_count: {cores}",
        'platform_name: "ROCM"',
    ):
        assert line in target.target_config
    assert "cuda" not in target.target_config


def test_its_workers_take_no_jobs_of_other_targets() -> None:
    strategy = Strategy(mesh=Mesh(context=8), backend="rccl")
    amd = target_for(strategy, catalog.hardware("mi300x"), toolchain=TOOLCHAIN)
    nvidia = amd.model_copy(update={"platform": "cuda"})
    assert amd.environment == {"JAX_PLATFORMS": "cpu"}
    assert amd.environment != nvidia.environment


def test_without_the_compiler_host_devices_stand_in() -> None:
    bare = TOOLCHAIN.model_copy(update={"targets": {"rocm": f"no XLA for AMD GPUs: {ROCM_WAY_OUT}", "cpu": True}})
    target = target_for(Strategy(mesh=Mesh(context=8), backend="rccl"), catalog.hardware("mi300x"), toolchain=bare)
    assert target.rung == "compiled:host"
    assert target.note == f"compiled for host devices: no XLA for AMD GPUs: {ROCM_WAY_OUT}"


def test_a_worker_without_the_plugin_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "MODULES", ("no_such_namespace.xla",))
    with pytest.raises(ImportError, match="no jax-rocm7-pjrt"):
        plugin.open_plugin.__wrapped__()


def test_kernels_that_a_run_would_choose_are_named() -> None:
    fusion = 'backend_config={"fusion_backend_config":{"kind":"__triton_nested_gemm_fusion"}}\n'
    library = 'custom-call(%a, %b), custom_call_target="__cublas$lt$matmul"\n'
    assert differences("", replaced=False) == (ATTENTION,)
    assert differences("", replaced=True) == (STAND_INS, ATTENTION)
    (products, _) = differences(2 * fusion, replaced=False)
    assert products.startswith("matrix products are Triton kernels with untimed tiles; a run also times hipBLASLt's")
    assert "up to 76 MiB of workspace" in products
    assert differences(library, replaced=False)[0].startswith("matrix products are hipBLASLt's, with its first algorithm")
    assert "fallback" in differences("%s = (f32[8]{0}) sort(%a)\n", replaced=False)[0]


@pytest.mark.rocm_target
@pytest.mark.parametrize("hardware", ["mi300x", "mi355x"])
def test_the_ring_goes_by_rccl(rocm_toolchain: Toolchain, make_job: MakeJob, hardware: str) -> None:
    job = make_job(hardware, context=4, tensor=2)
    ((_, row),) = compile_jobs([job], toolchain=rocm_toolchain, pool=LIMITS, store=None)
    assert (row.rung, row.target, row.error) == ("compiled:target", f"{hardware} 1x1x8", None)
    permutes = [use for use in row.collectives if use.op == "collective-permute"]
    # 2 layers x 4 steps x (forward, recomputed, backward) of 64 local rows of 64 bf16
    assert [(use.axis, use.bytes, use.calls, use.backend) for use in permutes] == [("context", 64 * 64 * 2, 24, "rccl")]


@pytest.mark.slow
@pytest.mark.rocm_target
def test_the_real_step_compiles_for_two_nodes_and_names_its_kernels(rocm_toolchain: Toolchain) -> None:
    job = CompileJob(
        model=ModelSpec(name="small", layers=2, d_model=256, d_ff=512, heads=4, kv_heads=2, head_dim=64, vocab=512),
        hardware=catalog.hardware("mi300xx2"),
        workload=Workload(seq_len=1024, global_batch=16),
        strategy=Strategy(mesh=Mesh(data=2, context=4, tensor=2), backend="rccl", loss_chunk_tokens=512),
    )
    ((_, row),) = compile_jobs([job], toolchain=rocm_toolchain, pool=replace(LIMITS, jobs=1), store=None)
    assert (row.target, row.error, row.kernels) == ("mi300x 2x1x8", None, ("blockwise",))
    assert row.warnings[0] == STAND_INS or "Triton" in row.warnings[0]
    assert row.warnings[-1] == ATTENTION
