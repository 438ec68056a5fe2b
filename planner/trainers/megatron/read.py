"""``--from-megatron ARGS``: Megatron-LM arguments, as a file of words (comments and line ends with a backslash allowed)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cost_models.inputs.program import PROGRAMS, Program
from lcplan.formats.errors import BadInputError
from lcplan.formats.nearest import near_multiples
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_text, read_yaml
from planner.trainers import Difference, Job
from planner.trainers.common.imported import Imported, mesh_text, refuse_axes, with_changes, with_experts
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.common.rules import gathered_weights, whole_stream
from planner.trainers.megatron.arguments import Arguments, Number, Parsed, numbers, parse_fields, parse_script
from planner.trainers.megatron.facts import SCHEMES
from planner.trainers.megatron.read_experts import dispatch_of
from planner.trainers.megatron.read_kernels import kernels_of, overlap_of
from planner.trainers.megatron.read_model import model_of
from planner.trainers.megatron.read_recompute import remat_of, several_layers
from planner.trainers.megatron.read_words import unresolved_of, words_of
from planner.trainers.megatron.refusals import notes_of, offloaded, predicted_tokens, refusals_of, refuse_adapters
from planner.trainers.wrappers.primus import wrapped_in

CP_COMM_TYPES = {theirs: ours for ours, theirs in SCHEMES.items()}
UNFUSED = ("unfused", "local")
"""``--attention-backend`` that keeps scores and weights of attention in memory."""


def read(file: str, devices: int | None = None) -> Imported:
    """Read the arguments.

    Raises
    ------
    BadInputError
        Words that are no arguments, a value that Megatron has not, or something that lcplan has no word for.
    """
    wrapped = wrapped_in(read_yaml(file), "megatron", file=Path(file)) if file.endswith((".yaml", ".yml")) else None
    parsed = parse_fields(wrapped) if wrapped else parse_script(read_text(file), file)
    return imported(parsed, file=file, devices=devices)


def imported(parsed: Parsed, *, file: str, devices: int | None) -> Imported:
    """Return the configuration that the arguments state."""
    arguments, unresolved = parsed.arguments, unresolved_of(parsed, file=file)
    unknown = unknown_keys("megatron", [*arguments, *parsed.unknown])
    number = numbers(arguments, file)
    refuse_adapters(arguments, file=file)
    _refuse_stages(arguments, number, file=file)
    sizes, world = _mesh(arguments, number, devices=devices or parsed.launch.devices, file=file)
    sizes, folded = _expert_ranks(arguments, number, sizes, file=file)
    options: dict[str, Any] = {"devices": world, "mesh": mesh_text(sizes), **folded}
    options |= _workload(arguments, number, ranks=sizes["data"] * sizes["fsdp"] * sizes["expert"], file=file)
    model, notes = model_of(arguments, tensor=sizes["tensor"], file=file)
    options |= {"model": model} if model and "model" not in unresolved else {}
    if sizes["context"] > 1:
        options["scheme"] = (_scheme(arguments, file),)
    dispatch, unbounded = dispatch_of(arguments, file=file)
    options |= dispatch
    remat, more = remat_of(arguments, number, file=file)
    options |= {"remat": (remat,), "gather_dtype": ("bf16",), "reduce_dtype": (_reduce(arguments),)}
    options["moments_dtype"] = (_moments(arguments),)
    overlap, hidden, partly = overlap_of(arguments, sizes["tensor"])
    options |= overlap
    kernels, kernel_notes = kernels_of(arguments, file=file)
    return Imported(
        trainer="megatron",
        file=file,
        options=options,
        unknown=unknown,
        unresolved=unresolved,
        unpriced=tuple(notes_on("megatron", arguments, option="--", takes_memory=True)),
        notes=(*words_of(parsed, devices), *notes, *more, *unbounded, *partly, *kernel_notes, *notes_of(arguments)),
        more=lambda job: [*_differences(arguments, sizes, file=file)(job), *offloaded(arguments, job, file=file)],
        program=_program(arguments, sizes).model_copy(update=hidden | kernels),
        whole_weights=_zero_one(arguments),
        refuses=lambda job: refusals_of(arguments, job),
        settings=arguments,
        again=lambda changes: imported(replace(parsed, arguments=with_changes(arguments, changes)), file=file, devices=devices),
    )


def _refuse_stages(arguments: Arguments, number: Number, *, file: str) -> None:
    """lcplan has no pipeline; and layers that stages do not divide are worth a word of their own."""
    stages, layers = number("pipeline-model-parallel-size", 1) or 1, number("num-layers", None)
    uneven = any(name.startswith(("decoder-first-", "decoder-last-", "pipeline-model-parallel-layout")) for name in arguments)
    if layers is not None and layers % stages and not uneven:
        raise BadInputError(
            f"{file}: pipeline-model-parallel-size={stages} does not divide --num-layers {layers}: releases of Megatron that "
            f"do not check train {layers // stages * stages} layers; and lcplan has no such axis yet"
        )
    refuse_axes({"pipeline-model-parallel-size": stages}, file=file)


def _mesh(arguments: Arguments, number: Number, *, devices: int | None, file: str) -> tuple[dict[str, int], int]:
    tensor, context = number("tensor-model-parallel-size", 1) or 1, number("context-parallel-size", 1) or 1
    if devices is None:
        raise BadInputError(f"{file}: Megatron takes the number of devices from its launcher; give --devices")
    ranks, rest = divmod(devices, tensor * context)
    if rest or not ranks:
        raise BadInputError(f"{file}: tensor x context = {tensor * context} does not divide --devices {devices}")
    sharded = "use-torch-fsdp2" in arguments or "use-distributed-optimizer" in arguments
    if "use-megatron-fsdp" in arguments:
        sharded = _sharding_strategy(arguments) != "no_shard"
    copies = number("num-distributed-optimizer-instances", 1) or 1
    if ranks % copies:
        raise BadInputError(
            f"{file}: --num-distributed-optimizer-instances {copies} does not divide the {ranks} data-parallel ranks"
        )
    data = copies if sharded else ranks
    return {"data": data, "fsdp": ranks // data, "context": context, "tensor": tensor, "expert": 1}, devices


def _expert_ranks(
    arguments: Arguments, number: Number, sizes: dict[str, int], *, file: str
) -> tuple[dict[str, int], dict[str, Any]]:
    """Return mesh and knobs of the ranks that hold the experts."""
    key, tensor = "expert-model-parallel-size", sizes["tensor"]
    experts, split = number(key, 1) or 1, number("expert-tensor-parallel-size", tensor) or 1
    if "num-experts" in arguments and split not in (1, tensor):
        raise BadInputError(
            f"{file}: --expert-tensor-parallel-size {split}: lcplan has experts that all {tensor} tensor ranks split, or "
            f"that are whole on each; use 1{f' or {tensor}' * (tensor > 1)}"
        )
    if "num-experts" in arguments and split < tensor and experts == 1:
        raise BadInputError(
            f"{file}: --expert-tensor-parallel-size 1 without expert ranks: lcplan has no such experts that are whole on each "
            f"of {tensor} tensor ranks; use --expert-tensor-parallel-size {tensor}, or --expert-model-parallel-size {tensor}"
        )
    return with_experts(sizes, experts, splits=split == tensor, key=f"--{key}", file=file)


def _sharding_strategy(arguments: Arguments) -> str:
    """``--data-parallel-sharding-strategy`` of Megatron-FSDP."""
    return (arguments.get("data-parallel-sharding-strategy") or ["optim_grads_params"])[0]


def _workload(arguments: Arguments, number: Number, *, ranks: int, file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seq, micro, batch = number("seq-length", None), number("micro-batch-size", None), number("global-batch-size", None)
    seq = seq or number("max-length", None)  # ms-swift's name
    if seq is not None:
        found["seq"] = seq
    if micro is None:
        return found | ({"global_batch": batch} if batch else {})
    batch = batch or micro * ranks
    if batch % (micro * ranks):
        raise BadInputError(
            f"{file}: --global-batch-size {batch} is no multiple of {micro} x {ranks} data-parallel ranks; "
            f"use {near_multiples(micro * ranks, batch)}"
        )
    return found | {"global_batch": batch, "microbatches": (batch // (micro * ranks),)}


def _scheme(arguments: Arguments, file: str) -> str:
    kinds = arguments.get("cp-comm-type") or ["p2p"]
    kind = kinds[0]
    if len(set(kinds)) > 1 or kind == "a2a+p2p":
        raise BadInputError(
            f"{file}: --cp-comm-type {' '.join(kinds)}: lcplan has one scheme for all layers, and no hierarchical one"
        )
    if kind == "allgather":
        kind = "all_gather"
    if kind not in CP_COMM_TYPES:
        raise BadInputError(f"{file}: Megatron has no --cp-comm-type {kind!r}, and does not notice{hint(kind, CP_COMM_TYPES)}")
    return CP_COMM_TYPES[kind]


def _reduce(arguments: Arguments) -> str:
    asked = (arguments.get("megatron-fsdp-grad-comm-dtype") or ["auto"])[0]
    return "bf16" if asked == "bf16" or "grad-reduce-in-bf16" in arguments else "fp32"


def _moments(arguments: Arguments) -> str:
    kinds = [(arguments.get(name) or ["fp32"])[0] for name in ("exp-avg-dtype", "exp-avg-sq-dtype")]
    return "bf16" if "use-precision-aware-optimizer" in arguments and kinds == ["bf16", "bf16"] else "fp32"


def _dense_mask(job: Job) -> Difference:
    """Count the data loader's mask: one byte per pair of positions of whole sequences, whatever context splits."""
    return Difference(
        name="attention-mask",
        plan="none: the kernel masks",
        trainer="a dense mask of seq x seq bytes for each sequence of a microbatch",
        why="its data loader makes one; --no-create-attention-mask-in-dataloader leaves it out",
        extra_bytes=job.micro_sequences * job.workload.seq_len**2,
    )


def _zero_one(arguments: Arguments) -> bool:
    """Whether only the optimizer's state is split over data-parallel ranks."""
    if "use-megatron-fsdp" in arguments:
        return _sharding_strategy(arguments) in ("optim", "optim_grads")
    return "use-distributed-optimizer" in arguments and "use-torch-fsdp2" not in arguments


def _program(arguments: Arguments, sizes: Mapping[str, int]) -> Program:
    """Return the priced step: Megatron's, with the arguments' split of the state."""
    changes: dict[str, Any] = {"loss": "chunked", "sequence_parallel": "sequence-parallel" in arguments}
    changes["pure_bf16"] = _bf16_gradients(arguments)
    if (arguments.get("attention-backend") or ["auto"])[0] in UNFUSED:
        modules = arguments.get("recompute-modules") or ["core_attn"]
        selective = arguments.get("recompute-granularity") == ["selective"] and "core_attn" in modules
        changes |= {"attention": "unfused", "recompute_scores": selective or "recompute-activations" in arguments}
    if _keeps_gathered(arguments):
        changes["weights_gathered"] = "once"
    if _zero_one(arguments):
        group = sizes["fsdp"] * sizes["context"]
        changes |= {"optimizer_group": group if sizes["data"] > 1 else None}
    elif sizes["fsdp"] * sizes["context"] > 1 and ({"use-megatron-fsdp", "use-torch-fsdp2"} & arguments.keys()):
        changes |= {"weights_over": "fsdp+context", "optimizer_over": "weights"}
    else:
        changes |= {"optimizer_over": "weights"}
    return PROGRAMS["megatron"].model_copy(update=changes)


def _keeps_gathered(arguments: Arguments) -> bool:
    return "use-torch-fsdp2" in arguments and "torch-fsdp2-no-reshard-after-forward" in arguments


def _bf16_gradients(arguments: Arguments) -> bool:
    """Whether the buffer of gradients is bf16: ``--grad-reduce-in-bf16``, or a precision-aware optimizer's own dtype."""
    kind = (arguments.get("main-grads-dtype") or ["fp32"])[0]
    return "grad-reduce-in-bf16" in arguments or ("use-precision-aware-optimizer" in arguments and kind == "bf16")


def _held_elements(job: Job, shards: int) -> float:
    """Matrix parameters that a rank holds where data-parallel ranks hold them whole: of experts only those of its own."""
    every = job.state_elements * shards
    model, mesh = job.model, job.strategy.mesh
    count = model.experts.count if model.experts else 0
    experts, (ranks, split) = model.expert_layers * count * model.expert_matrix_parameters, job.expert_ranks
    return every - experts / mesh.tensor + experts / (ranks * split)


def _differences(arguments: Arguments, sizes: dict[str, int], *, file: str) -> Callable[[Job], list[Difference]]:
    """List consequences of these arguments beyond Megatron's usual behaviour."""
    zero_one = _zero_one(arguments)

    def differences(job: Job) -> list[Difference]:
        found = [] if "no-create-attention-mask-in-dataloader" in arguments else [_dense_mask(job)]
        found += predicted_tokens(arguments, job, whole=zero_one, file=file) + several_layers(arguments, job, file=file)
        if _keeps_gathered(arguments):
            found += gathered_weights(job, key="--torch-fsdp2-no-reshard-after-forward")
        if sizes["tensor"] > 1 and "sequence-parallel" not in arguments:
            found += whole_stream(job, "there is no --sequence-parallel")
        shards = sizes["fsdp"] * sizes["context"] * sizes["expert"]
        if zero_one and shards > 1:
            held = 2 + (2 if _bf16_gradients(arguments) else 4)  # bf16 parameters and gradients, of which the laws have
            whole_copy = held * _held_elements(job, shards)
            found.append(
                Difference(
                    name="sharding",
                    plan="parameters, gradients and optimizer over fsdp x context",
                    trainer="only the optimizer's state",
                    why="--use-distributed-optimizer is ZeRO-1: bf16 parameters and gradients are whole on every rank",
                    extra_bytes=round(whole_copy - 4 * job.state_elements),  # fp32 gradients, sharded
                )
            )
        return found

    return differences
