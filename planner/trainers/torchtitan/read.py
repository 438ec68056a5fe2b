"""``--from-torchtitan FILE``: an old TOML, or a Python configuration module read as syntax and never executed.

``FILE:function`` names the function of a module that holds several.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cost_models.inputs.program import PROGRAMS, Program
from lcplan.formats.booleans import truth, unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.nearest import near_multiples
from lcplan.formats.suggest import hint
from planner.trainers import Difference, Job
from planner.trainers.common.imported import Imported, mesh_text, refuse_axes, whole, with_experts
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.common.offload import STATE_BYTES, in_host_memory
from planner.trainers.common.rules import bf16_masters, gathered_weights
from planner.trainers.torchtitan.read_python import read_python
from planner.trainers.torchtitan.read_toml import read_toml
from planner.trainers.torchtitan.sections import Sections

SELECTIVE = ("attention_output", "lse", "query", "attention_out", "gate")
"""Tensors that its selective checkpointing keeps: attention and every second product, from the first on (``SelectiveAC``)."""
STRATEGIES: Mapping[str, str] = MappingProxyType({"kv_allgather": "all-gather", "ulysses": "ulysses"})
"""``context_parallel_strategy`` of torchtitan after 0.3.0."""


def read(file: str, devices: int | None = None) -> Imported:
    """Read the configuration.

    Raises
    ------
    BadInputError
        Neither of the two formats, or something that lcplan has no word for.
    """
    said = read_toml(file) if file.endswith(".toml") else read_python(file)
    return _imported(said, file=file, devices=devices)


def _imported(said: Sections, *, file: str, devices: int | None) -> Imported:
    """Return the configuration that the sections state."""
    training, parallel = unquoted(dict(said.training)), unquoted(dict(said.parallelism))
    refuse_axes({"pipeline_parallel_degree": parallel.get("pipeline_parallel_degree", 1)}, file=file)
    sizes, world = _mesh(parallel, devices=devices, file=file)
    sizes, folded = _expert_ranks(parallel, sizes, file=file)
    options: dict[str, Any] = {"devices": world, "mesh": mesh_text(sizes), **folded}
    options |= {"model": said.model} if said.model else {}
    options |= _workload(training, ranks=sizes["data"] * sizes["fsdp"] * sizes["expert"], file=file)
    if sizes["context"] > 1:
        options["scheme"] = (_scheme(parallel, said.scheme, file=file),)
    options |= {"remat": (said.remat,)} if said.remat else {}
    offloads = truth(training, "enable_cpu_offload", file=file)
    halves = training.get("dtype") == "bfloat16"
    options |= {"gather_dtype": ("bf16",), "reduce_dtype": ("fp32",), "moments_dtype": ("bf16" if halves else "fp32",)}
    options |= _loss(said, options, sizes=sizes, file=file)
    settings = {f"training.{key}": value for key, value in training.items()}
    settings |= {f"parallelism.{key}": value for key, value in parallel.items()}
    notes = (
        *said.notes,
        *notes_on("torchtitan", settings),
        *(() if said.model else ("no model that the catalogue knows: give --model",)),
    )
    unknown = said.unknown if file.endswith(".toml") else unknown_keys("torchtitan", settings)
    return Imported(
        "torchtitan",
        file,
        options,
        unknown=unknown,
        notes=notes,
        program=_program(said),
        unpriced=tuple(notes_on("torchtitan", settings, takes_memory=True)),
        settings=said.settings,
        again=lambda changes: _imported(said.changed(changes), file=file, devices=devices),
        more=lambda job: [*(_offload(job) if offloads else []), *(_halves(job) if halves else []), *_kept(parallel, job)],
        refuses=lambda job: [*_attention(said, job), *_uncompiled(said)],
    )


def _offload(job: Job) -> list[Difference]:
    """``enable_cpu_offload``: FSDP2's policy that keeps parameters, gradients and the optimizer on the host."""
    shards = job.strategy.state_shards
    held = STATE_BYTES / 2 if job.strategy.moments_dtype == "bf16" else STATE_BYTES
    return in_host_memory(job, bytes_per_parameter=held, shards=shards, key="enable_cpu_offload")


def _halves(job: Job) -> list[Difference]:
    """``training.dtype`` bfloat16: parameters without fp32 masters."""
    return bf16_masters(job, bytes_per_parameter=2.0, key="training.dtype bfloat16")


def _keeps_gathered(parallel: Mapping[str, Any]) -> bool:
    return parallel.get("fsdp_reshard_after_forward") == "never"


def _kept(parallel: Mapping[str, Any], job: Job) -> list[Difference]:
    return gathered_weights(job, key="fsdp_reshard_after_forward never") if _keeps_gathered(parallel) else []


def _attention(said: Sections, job: Job) -> list[str]:
    """Context parallelism exists only for FlexAttention (models/common/decoder.py)."""
    context = job.strategy.mesh.context
    if context == 1 or said.attention in (None, "flex"):
        return []
    asked = f"attn_backend={said.attention!r} with context_parallel_degree={context}"
    return [f"{asked}: only flex has context parallelism; use attn_backend='flex'"]


def _overlaps(said: Sections) -> bool:
    """``enable_async_tensor_parallel``, until 0.2."""
    tensor = said.parallelism.get("tensor_parallel_degree", 1)
    return said.parallelism.get("enable_async_tensor_parallel") is True and tensor != 1


def _uncompiled(said: Sections) -> list[str]:
    """Async tensor parallelism is a pass of torch.compile (models/llama3/infra/parallelize.py, ``maybe_enable_async_tp``)."""
    if not _overlaps(said) or said.compiled:
        return []
    return ["enable_async_tensor_parallel without compile: only torch.compile cuts products; set [compile] enable = true"]


def _program(said: Sections) -> Program:
    """Return the priced step: torchtitan's, compiled or one operation at a time."""
    base = PROGRAMS["torch-compile" if said.compiled else "torch-eager"]
    changes: dict[str, Any] = {"loss": "chunked", "saved": SELECTIVE if said.selective else None}
    changes |= {"weights_gathered": "once"} if _keeps_gathered(said.parallelism) else {}
    changes |= {"attention": "cudnn-2025"} if said.attention == "sdpa" else {}  # its first choice (models/common/attention.py)
    changes |= {"stream": "beside-products"} if _overlaps(said) else {}
    changes |= {"dispatch": "graphs"} if said.graphs and said.training.get("disable_cuda_graphs") is not True else {}
    changes |= {"deterministic": said.training.get("deterministic") is True}
    return base.model_copy(update=changes | ({"pure_bf16": True} if said.training.get("dtype") == "bfloat16" else {}))


def _scheme(parallel: Mapping[str, Any], otherwise: str, *, file: str) -> str:
    """Return ``context_parallel_strategy`` of later versions, if present."""
    strategy = parallel.get("context_parallel_strategy")
    if strategy is None:
        return otherwise
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise BadInputError(f"{file}: context_parallel_strategy {strategy!r:.60}{hint(str(strategy), STRATEGIES)}")
    return STRATEGIES[strategy]


def _mesh(parallel: Mapping[str, Any], *, devices: int | None, file: str) -> tuple[dict[str, int], int]:
    def degree(name: str) -> int:
        return whole(parallel.get(name, 1), name, file=file)

    copies, context = degree("data_parallel_replicate_degree"), degree("context_parallel_degree")
    tensor, shards = degree("tensor_parallel_degree"), parallel.get("data_parallel_shard_degree", -1)
    others = copies * context * tensor
    if shards == -1:
        if devices is None:
            raise BadInputError(
                f"{file}: data_parallel_shard_degree is -1, which torchtitan fills from the launcher; give --devices"
            )
        shards = devices // others
    shards = whole(shards, "data_parallel_shard_degree", file=file)
    if devices not in (None, shards * others):
        raise BadInputError(f"{file}: its degrees multiply to {shards * others}, not to --devices {devices}")
    return {"data": copies, "fsdp": shards, "context": context, "tensor": tensor, "expert": 1}, shards * others


def _expert_ranks(parallel: Mapping[str, Any], sizes: dict[str, int], *, file: str) -> tuple[dict[str, int], dict[str, Any]]:
    """Return mesh and knobs of the ranks that hold the experts; until 0.2 tensor ranks could split each expert."""
    key, split = (
        "expert_parallel_degree",
        whole(parallel.get("expert_tensor_parallel_degree", 1), "expert_tensor_parallel_degree", file=file),
    )
    experts = whole(parallel.get(key, 1), key, file=file)
    if split not in (1, sizes["tensor"]):
        raise BadInputError(
            f"{file}: expert_tensor_parallel_degree={split} is neither 1 nor tensor_parallel_degree={sizes['tensor']}, which "
            "torchtitan demands"
        )
    return with_experts(sizes, experts, splits=split == sizes["tensor"], key=key, file=file)


def _workload(training: Mapping[str, Any], *, ranks: int, file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "seq_len" in training:
        found["seq"] = whole(training["seq_len"], "seq_len", file=file)
    if "local_batch_size" not in training:
        return found
    step = whole(training["local_batch_size"], "local_batch_size", file=file) * ranks
    batch = training.get("global_batch_size", -1)
    batch = step if batch == -1 else whole(batch, "global_batch_size", file=file)
    if batch % step:
        raise BadInputError(
            f"{file}: global_batch_size {batch} is no multiple of local_batch_size x data-parallel ranks = {step}; "
            f"use {near_multiples(step, batch)}"
        )
    return found | {"global_batch": batch, "microbatches": (batch // step,)}


def _loss(said: Sections, options: Mapping[str, Any], *, sizes: Mapping[str, int], file: str) -> dict[str, Any]:
    """``loss_chunk_tokens`` from the number of pieces; whole where the loss is not chunked."""
    if "seq" not in options or "global_batch" not in options:
        return {}
    local = options["seq"] // sizes["context"]
    sequences = options["global_batch"] // (sizes["data"] * sizes["fsdp"] * sizes["expert"] * options["microbatches"][0])
    if said.loss_chunks is None:
        return {}
    pieces = whole(said.loss_chunks, "num_chunks", file=file)
    return {"loss_chunk_tokens": (max(1, min(local, sequences * local // pieces)),)}
