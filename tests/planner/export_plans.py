"""Plans that every exporter's tests share: dense 8B and 70B, 8k to 1M tokens, GPU and TPU, with and without each axis."""

from __future__ import annotations

from typing import Any

from lcplan import __version__, catalog
from lcplan.evidence.plan import Evidence, Launch, Plan, Request
from lcplan.spec.workload import Workload
from lcplan.strategy import AXES, Mesh, Strategy
from planner.request.request import SearchRequest
from planner.workloads.pricing import price

JAX = "0.10.1"


def make_plan(model: str, hw: str, *, seq: int, batch: int = 1, **strategy: Any) -> Plan:
    """A plan by catalogue names; keywords are the strategy's, axes by their own names."""
    axes = {axis: strategy.pop(axis) for axis in AXES if axis in strategy}
    strategy.setdefault("loss_chunk_tokens", min(1024, seq // axes.get("context", 1)))
    spec, hardware = catalog.model(model), catalog.hardware(hw)
    strategy.setdefault("backend", hardware.backends[0])
    chosen = Strategy(mesh=Mesh(**axes), **strategy)
    workload = Workload(seq_len=seq, global_batch=batch)
    request = SearchRequest(model=spec, hardware=hardware, workload=workload, budget_bytes=hardware.usable_bytes)
    candidate = price(request, chosen)
    per_process = min(hardware.node_size, chosen.devices)
    return Plan(
        lcplan_version=__version__,
        request=Request(
            model=spec,
            hardware=hardware,
            workload=workload,
            budget_bytes=hardware.usable_bytes,
            objective="tokens_per_s",
        ),
        strategy=chosen,
        evidence=Evidence(estimate=candidate.estimate),
        launch=Launch(processes=chosen.devices // per_process, devices_per_process=per_process),
        toolchain={"jax": JAX},
    )


def plans() -> dict[str, Plan]:
    """By name."""
    return {
        "8b-256k-gb200": make_plan("llama3-8b", "gb200-nvl72", seq=262144, batch=2, context=16, tensor=2, microbatches=2),
        "8b-8k-h100": make_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8, microbatches=2, remat="save-all"),
        "8b-1m-gb200": make_plan("llama3.1-8b", "gb200-nvl72", seq=2**20, context=32, tensor=2, remat="save-attention"),
        "8b-64k-ulysses": make_plan(
            "llama3.1-8b", "dgx-h100x4", seq=65536, batch=8, fsdp=4, context=8, microbatches=2, scheme="ulysses"
        ),
        "8b-32k-tensor": make_plan("llama3-8b", "dgx-h100x2", seq=32768, batch=4, fsdp=2, tensor=8, microbatches=2),
        "70b-128k-h200": make_plan(
            "llama3.1-70b", "dgx-h200x16", seq=131072, batch=4, data=2, fsdp=2, context=4, tensor=8, remat="save-except-mlp"
        ),
        "70b-8k-gb200": make_plan("llama3-70b", "gb200-nvl72", seq=8192, batch=64, fsdp=16, tensor=4, microbatches=2),
        "70b-32k-fsdp": make_plan("llama3.1-70b", "dgx-h200x8", seq=32768, batch=64, fsdp=64),
        "70b-1m-h200": make_plan("llama3.1-70b", "dgx-h200x32", seq=2**20, context=32, tensor=8, scheme="all-gather"),
        "70b-512k-ulysses": make_plan("llama3.1-70b", "dgx-h200x16", seq=2**19, batch=16, fsdp=16, context=8, scheme="ulysses"),
        "8b-128k-seq": make_plan("llama3.1-8b", "dgx-h100x4", seq=131072, batch=2, fsdp=2, context=16, scheme="ulysses"),
        "8b-16k-tensor": make_plan("llama3.1-8b", "gb200-nvl72", seq=16384, batch=16, fsdp=8, tensor=4),
        "qwen3-32k": make_plan("qwen3-8b", "dgx-h100x2", seq=32768, batch=8, fsdp=4, context=4, scheme="ring", microbatches=2),
        "mistral-32k": make_plan("mistral-7b-v0.3", "dgx-h100", seq=32768, batch=8, fsdp=8),
        "8b-256k-v5p": make_plan("llama3-8b", "tpu-v5p-64", seq=262144, context=16, tensor=2),
        "8b-8k-v6e": make_plan("llama3.1-8b", "tpu-v6e-64", seq=8192, batch=64, fsdp=64, remat="save-qkv"),
        "70b-128k-v5p": make_plan(
            "llama3.1-70b", "tpu-v5p-256", seq=131072, batch=8, fsdp=8, context=8, tensor=2, remat="save-all"
        ),
        "70b-1m-v5p": make_plan("llama3.1-70b", "tpu-v5p-512", seq=2**20, context=64, tensor=4, scheme="ring"),
        "8b-128k-two-slices": make_plan("llama3.1-8b", "tpu-v5p-64x2", seq=131072, batch=8, data=2, fsdp=4, context=8),
        "8b-64k-v5p-all-gather": make_plan(
            "llama3.1-8b", "tpu-v5p-64", seq=65536, batch=4, fsdp=4, context=8, scheme="all-gather"
        ),
        "70b-16k-v5p-tensor": make_plan("llama3.1-70b", "tpu-v5p-128", seq=16384, batch=16, fsdp=16, tensor=4),
    }


ABLE: dict[str, tuple[str, ...]] = {
    "maxtext": tuple(plans()),
    "megatron": tuple(name for name, plan in plans().items() if plan.request.hardware.kind == "gpu"),
    "torchtitan": tuple(name for name, plan in plans().items() if plan.request.hardware.kind == "gpu"),
    "accelerate": tuple(name for name, plan in plans().items() if plan.request.hardware.kind == "gpu"),
    "deepspeed": (
        "8b-8k-h100", "8b-64k-ulysses", "70b-32k-fsdp", "70b-512k-ulysses", "8b-128k-seq", "qwen3-32k", "mistral-32k",
    ),
    "levanter": (
        "8b-8k-h100", "8b-32k-tensor", "70b-8k-gb200", "70b-32k-fsdp", "8b-16k-tensor", "mistral-32k", "8b-256k-v5p",
        "8b-8k-v6e", "70b-128k-v5p", "70b-1m-v5p", "8b-128k-two-slices", "8b-64k-v5p-all-gather", "70b-16k-v5p-tensor",
    ),
    "jax": tuple(plans()),
}  # fmt: skip
"""Plans that each trainer can run, named differences allowed; the others are refused."""


def mixtures() -> dict[str, Plan]:
    """Plans of mixtures of experts, with each dispatch, by name."""
    return {
        "qwen3-moe-32k-gb200": make_plan(
            "qwen3-30b-a3b", "gb200-nvl72", seq=32768, batch=32, context=2, expert=16, tensor=2, microbatches=2
        ),
        "mixtral-16k-h200": make_plan(
            "mixtral-8x7b", "dgx-h200x4", seq=16384, batch=32, fsdp=4, expert=8, remat="save-qkv", moe_capacity_percent=0
        ),
        "qwen3-moe-64k-v5p": make_plan(
            "qwen3-30b-a3b", "tpu-v5p-64", seq=65536, batch=8, fsdp=2, context=4, expert=4, moe_dispatch="gather",
            moe_capacity_percent=150,
        ),
        "mixtral-8k-v5p": make_plan(
            "mixtral-8x7b", "tpu-v5p-64", seq=8192, batch=32, fsdp=4, expert=8, remat="save-all", moe_dispatch="capacity",
            moe_capacity_percent=125,
        ),
        "mixtral-8k-fsdp": make_plan("mixtral-8x7b", "dgx-h200x4", seq=8192, batch=32, fsdp=32, microbatches=1),
    }  # fmt: skip
