"""What MaxText refuses when it starts, by keys that lcplan has no knob for (``configs/types.py``, ``utils/train_utils.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from planner.trainers import Job


def refusals_of(values: Mapping[str, Any]) -> Callable[[Job], list[str]]:
    """The refusals of a configuration, base.yml's defaults among its values, once its job is known."""
    return lambda job: [*_ulysses(values, job), *_packing(values, job), *_tiling(values, job)]


def _strategy(values: Mapping[str, Any], job: Job) -> str | None:
    return str(values["context_parallel_strategy"]).lower() if job.strategy.mesh.context > 1 else None


def _ulysses(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    if _strategy(values, job) != "ulysses":
        return
    if job.hardware.kind != "tpu":
        yield f"MaxText runs Ulysses on TPU only, and {job.hardware.name} is {job.hardware.kind}; use ring or all_gather"
    if values["context_parallel_load_balance"]:
        yield "Ulysses needs context_parallel_load_balance: false, since each rank then has the whole sequence of its heads"


def _packing(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    strategy = _strategy(values, job)
    if strategy is None or not values["packing"]:
        return
    if values["dataset_type"] == "synthetic":
        yield "packing (true unless set) with context parallelism is refused for synthetic data; set packing: false"
    balanced = strategy == "ring" and bool(values["context_parallel_load_balance"])
    if job.hardware.kind == "gpu" and not balanced:
        yield (
            f"packing (true unless set) with context parallelism on GPU runs only as a balanced ring, not as {strategy}; set "
            "packing: false, or context_parallel_strategy: ring with context_parallel_load_balance: true"
        )
    elif strategy not in ("all_gather", "ring"):
        yield f"packing (true unless set) runs with all_gather or ring, not with {strategy}; set packing: false"


def _tiling(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    tiles, size = values["num_vocab_tiling"], values.get("per_device_batch_size")
    tokens = 0 if size is None else size * job.workload.seq_len
    if tokens % tiles:
        yield (
            f"num_vocab_tiling={tiles} must divide per_device_batch_size x max_target_length = {tokens:g}; "
            "use a power of two that does"
        )
