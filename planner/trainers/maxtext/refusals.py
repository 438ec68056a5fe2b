"""Keys without a knob in lcplan that MaxText refuses when it starts.

Read in 0.2.5: ``configs/types.py``, ``utils/train_utils.py``, ``utils/max_utils.py`` (``reorder_sequence``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lcplan.formats.nearest import near_divisors
from planner.trainers import Job
from planner.trainers.maxtext.read_kernels import on_gpu, on_tpu, strategy_of
from planner.trainers.maxtext.torus import off_the_torus

_FP8 = ("fp8", "nanoo_fp8", "fp8_gpu", "te_fp8_delayedscaling")
"""Recipes that keep a history of scales, which accumulation over microbatches does not carry."""


def refusals_of(values: Mapping[str, Any], inside: Mapping[str, int]) -> Callable[[Job], list[str]]:
    """The refusals of a configuration, base.yml's defaults among its values, once its job is known.

    ``inside`` are the sizes of its axes inside a slice.
    """
    checks = (_hardware, _kernels, _ulysses, _packing, _balance, _numbers)
    split = bool(values["allow_split_physical_axes"])
    return lambda job: [
        *(problem for check in checks for problem in check(values, job)),
        *off_the_torus(inside, job, split=split),
    ]


def _hardware(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    said = values.get("hardware")
    if said is not None and str(said).removesuffix("_multiprocess") != job.hardware.kind:
        yield f"hardware: {said}, and {job.hardware.name} is {job.hardware.kind}; set hardware: {job.hardware.kind}"


def _kernels(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    return on_gpu(values, job) if job.hardware.kind == "gpu" else on_tpu(values, job)


def _strategy(values: Mapping[str, Any], job: Job) -> str | None:
    return strategy_of(values) if job.strategy.mesh.context > 1 else None


def _ulysses(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    if _strategy(values, job) != "ulysses":
        return
    if job.hardware.kind != "tpu":
        yield f"MaxText runs Ulysses on TPU only, and {job.hardware.name} is {job.hardware.kind}; use ring or all_gather"
    if values["context_parallel_load_balance"]:
        yield "Ulysses needs context_parallel_load_balance: false, since each rank then has the whole sequence of its heads"
    if values.get("dcn_context_parallelism", 1) != 1:
        yield (
            f"Ulysses does not cross slices: dcn_context_parallelism={values['dcn_context_parallelism']}; use 1, and another "
            "axis over slices"
        )


def _packing(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    if not values["packing"]:
        return
    if job.hardware.kind != "gpu":
        return
    attention, strategy, most = values["attention"], _strategy(values, job), values["max_segments_per_seq"]
    if attention == "cudnn_flash_jax" and values["dataset_type"] != "synthetic":
        yield (
            "packing (true unless set) with attention: cudnn_flash_jax attends across the documents of a sequence unsaid "
            "(AI-Hypercomputer/maxtext#4476); set attention: cudnn_flash_te, or packing: false"
        )
    if attention != "cudnn_flash_te":
        return
    if not isinstance(most, int) or most <= 0:
        yield (
            f"packing (true unless set) with cudnn_flash_te needs max_segments_per_seq above 0, not {most}: the most documents "
            "of a sequence; or set packing: false"
        )
    if strategy is not None and not (strategy == "ring" and values["context_parallel_load_balance"]):
        yield (
            f"packing (true unless set) with context parallelism on GPU runs only as a balanced ring, not as {strategy}; set "
            "packing: false, or context_parallel_strategy: ring with context_parallel_load_balance: true"
        )


def _balance(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    strategy, context, seq = _strategy(values, job), job.strategy.mesh.context, job.workload.seq_len
    gpu, order = job.hardware.kind == "gpu", str(values["context_parallel_reorder_strategy"]).lower()
    if strategy in (None, "ulysses") or not values["context_parallel_load_balance"]:
        return
    if order == "striped" and not gpu:
        yield "context_parallel_reorder_strategy: striped is Transformer Engine's, only on GPU; use auto"
    striped = gpu and (order == "striped" or (order == "auto" and bool(values["packing"]) and strategy == "ring"))
    if not striped and (context % 2 or seq % (2 * context)):
        yield (
            f"context_parallel_load_balance (true unless set) deals 2 x context chunks in pairs: context={context} must be "
            f"even and 2 x context = {2 * context} divide max_target_length={seq}; use an even context, or set it false"
        )


def _numbers(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    tiles, size = values["num_vocab_tiling"], values.get("per_device_batch_size")
    tokens = 0 if size is None else size * job.workload.seq_len
    if tokens % tiles:
        ways = near_divisors(int(tokens), tiles) if tokens >= 1 else "1"
        yield f"num_vocab_tiling={tiles} must divide per_device_batch_size x max_target_length = {tokens:g}; use {ways}"
    if values["ring_scan_unroll"] != 1 and strategy_of(values) != "ring":
        yield f"ring_scan_unroll={values['ring_scan_unroll']} belongs to a ring, not to {strategy_of(values)}'s; leave it at 1"
    if values["quantization"] in _FP8 and job.strategy.microbatches > 1:
        yield (
            f"quantization={values['quantization']} with gradient_accumulation_steps={job.strategy.microbatches} is refused; "
            "use 1 step, or another quantization"
        )
