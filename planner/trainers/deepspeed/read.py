"""``--from-deepspeed FILE.json``: a DeepSpeed JSON. Model, sequence length and checkpointing live in the training script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lcplan.formats.booleans import truth, unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.nearest import near_multiples
from lcplan.formats.textfile import read_json
from planner.trainers import Difference, Job
from planner.trainers.common.imported import Imported, mesh_text, nested, whole, with_changes
from planner.trainers.common.known_keys import known_keys, notes_on, unknown_keys
from planner.trainers.common.rules import bf16_masters
from planner.trainers.common.zero import Zero, stage_of
from planner.trainers.deepspeed.read_script import file_of_script

ADAM = ("adam", "adamw", "fusedadam", "deepspeedcpuadam", "cpuadam")
OFFLOADS = ("offload_optimizer", "offload_param")


def read(file: str, devices: int | None = None) -> Imported:
    """Read the JSON.

    Raises
    ------
    BadInputError
        Not such a JSON, numbers that do not multiply, or something that lcplan has no word for.
    """
    if file.endswith((".sh", ".slurm", ".sbatch", ".bash")):
        data, devices = file_of_script(file, devices)
    else:
        data = read_json(file)
    if not isinstance(data, dict):
        raise BadInputError(f"{file}: not a DeepSpeed configuration; it must be a JSON object")
    return imported(data, devices=devices, file=file)


def imported(data: dict[str, Any], *, devices: int | None, file: str) -> Imported:
    """Read the settings of a DeepSpeed JSON."""
    data = _flags_read(data, file)
    zero = _section(data, "zero_optimization", file=file)
    keys = [*data, *(f"zero_optimization.{key}" for key in zero)]
    if not any(key in known_keys("deepspeed") for key in keys):
        raise BadInputError(f"{file}: DeepSpeed knows no key of it ({', '.join(map(str, keys[:5]))})")
    sharding = _zero(zero, file=file)
    sharding = replace(sharding, state_bytes=(16.0, 12.0, 8.0)[_halves(data, sharding)])
    stage = sharding.stage
    context = whole(data.get("sequence_parallel_size", 1), "sequence_parallel_size", file=file)
    tensor = whole(_section(data, "tensor_parallel", file=file).get("autotp_size", 1), "tensor_parallel.autotp_size", file=file)
    batch = _batch(data, file)
    ranks = _ranks(batch, devices=devices, others=context * tensor, file=file)
    sizes = {"data": ranks if stage == 0 else 1, "fsdp": 1 if stage == 0 else ranks, "context": context, "tensor": tensor}
    options: dict[str, Any] = {"devices": ranks * context * tensor, "mesh": mesh_text(sizes)}
    options |= {"scheme": ("ulysses",)} if context > 1 else {}
    options |= _workload(batch, ranks=ranks, file=file)
    reduce = str(data.get("communication_data_type", "bf16"))
    options |= {
        "gather_dtype": ("bf16",),
        "reduce_dtype": ("fp32" if reduce == "fp32" else "bf16",),
        "moments_dtype": ("bf16" if _halves(data, sharding) == 2 else "fp32",),
    }
    settings = _settings(data)
    return Imported(
        "deepspeed",
        file,
        options,
        unknown=unknown_keys("deepspeed", keys),
        notes=(*_notes(data, sharding), *notes_on("deepspeed", data | {f"zero_optimization.{key}": zero[key] for key in zero})),
        more=lambda job: [*sharding.differences(job), *_bf16_state(data, sharding, job)],
        refuses=sharding.refusals,
        program=sharding.program,
        whole_weights=sharding.whole_weights,
        unpriced=_fp32(data),
        waives=sharding.waives,
        settings=settings,
        again=lambda changes: imported(nested(with_changes(settings, changes)), devices=devices, file=file),
    )


SECTIONS = ("zero_optimization", "tensor_parallel", "bf16")


def _settings(data: dict[str, Any]) -> dict[str, Any]:
    """Every value by its key, those of a section with its name before a dot."""
    sections = {name: data[name] for name in SECTIONS if isinstance(data.get(name), dict)}
    alone = {key: value for key, value in data.items() if key not in sections}
    return alone | {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}


FLAGS = {"bf16": ("enabled", "bf16_master_weights_and_grads", "bf16_optimizer_states"), "zero_optimization": ("overlap_comm",)}
"""Booleans of each section that lcplan reads; ``bfloat16`` is an older name of ``bf16``."""


def _flags_read(data: Any, file: str) -> Any:
    """Return the file's values with each boolean that is read as one; ``auto``, which Transformers fills in, stays."""
    data = unquoted(data)
    for name, flags in (*FLAGS.items(), ("bfloat16", FLAGS["bf16"])):
        section = data.get(name) if isinstance(data, dict) else None
        if isinstance(section, dict):
            given = [key for key in flags if section.get(key, "auto") != "auto"]
            data = {**data, name: section | {key: truth(section, key, file=file) for key in given}}
    return data


def _section(data: dict[str, Any], name: str, *, file: str) -> dict[str, Any]:
    section = data.get(name) or {}
    if not isinstance(section, dict):
        raise BadInputError(f"{file}: {name} is not an object")
    return section


def _batch(data: dict[str, Any], file: str) -> dict[str, int]:
    """Return the three batch numbers that the file states; ``auto`` states no number."""
    names = {"train_batch_size": "train", "train_micro_batch_size_per_gpu": "micro", "gradient_accumulation_steps": "steps"}
    return {ours: whole(data[key], key, file=file) for key, ours in names.items() if data.get(key, "auto") != "auto"}


def _ranks(batch: dict[str, int], *, devices: int | None, others: int, file: str) -> int:
    """Ranks with a batch of their own: from ``--devices``, else from train = micro x steps x ranks."""
    if devices is not None:
        if devices % others:
            raise BadInputError(f"{file}: sequence_parallel_size x autotp_size = {others} does not divide --devices {devices}")
        return devices // others
    if len(batch) < 3:
        raise BadInputError(f"{file}: its batch numbers do not give the number of devices; give --devices")
    ranks, rest = divmod(batch["train"], batch["micro"] * batch["steps"])
    if rest or not ranks:
        raise BadInputError(
            f"{file}: train_batch_size {batch['train']} is no multiple of {batch['micro']} x {batch['steps']}; "
            f"use {near_multiples(batch['micro'] * batch['steps'], batch['train'])}"
        )
    return ranks


def _workload(batch: dict[str, int], *, ranks: int, file: str) -> dict[str, Any]:
    micro = batch.get("micro")
    if micro is None:
        return {"global_batch": batch["train"]} if "train" in batch else {}
    steps = batch.get("steps") or (batch["train"] // (micro * ranks) if "train" in batch else 1)
    total = micro * ranks * steps
    if batch.get("train", total) != total:
        raise BadInputError(
            f"{file}: train_batch_size {batch['train']} is not micro {micro} x steps {steps} x {ranks} ranks = {total}; "
            "DeepSpeed refuses it too"
        )
    return {"global_batch": total, "microbatches": (steps,)}


def _zero(zero: dict[str, Any], *, file: str) -> Zero:
    stage = stage_of(zero.get("stage", 0), "zero_optimization.stage", file=file)
    return Zero(stage, zero, offloaded={name: _device(zero, name) for name in OFFLOADS})


def _device(zero: dict[str, Any], name: str) -> str:
    """Return the place of a part of the state: ``none``, ``cpu`` or ``nvme``."""
    section = zero.get(name)
    return str(section.get("device", "none")) if isinstance(section, dict) else "none"


def _halves(data: dict[str, Any], sharding: Zero) -> int:
    """How far the state is in bf16 without fp32 masters: 0 not, 1 masters and gradients, 2 the moments too; of stage 3."""
    section = data.get("bf16") or data.get("bfloat16")
    if not isinstance(section, dict) or not section.get("bf16_master_weights_and_grads") or sharding.stage != 3:
        return 0
    return 2 if section.get("bf16_optimizer_states") else 1


def _bf16_state(data: dict[str, Any], sharding: Zero, job: Job) -> list[Difference]:
    """Masters and gradients in bf16: 4 bytes of a parameter in place of 8."""
    if not _halves(data, sharding):
        return []
    return bf16_masters(job, bytes_per_parameter=4.0, key="bf16_master_weights_and_grads")


def _notes(data: dict[str, Any], sharding: Zero) -> list[str]:
    notes = list(sharding.notes)
    if not _enabled(data.get("bf16") or data.get("bfloat16")):
        notes.append("bf16 is not enabled: lcplan prices bf16 with fp32 masters")
    sums = data.get("data_types")
    kind = sums.get("grad_accum_dtype") if isinstance(sums, dict) else None
    if kind not in (None, "fp32"):
        notes.append(f"data_types.grad_accum_dtype {kind!s:.20}: gradients are priced as added up in fp32")
    optimizer = data.get("optimizer")
    name = str(optimizer.get("type", "AdamW")) if isinstance(optimizer, dict) else "AdamW"
    if name.lower() not in ADAM:
        notes.append(f"optimizer.type {name:.40}: lcplan prices AdamW with two moments")
    section = data.get("bf16") or data.get("bfloat16")
    if isinstance(section, dict) and section.get("bf16_master_weights_and_grads") and sharding.stage != 3:
        notes.append("bf16_master_weights_and_grads: priced with fp32 masters, except with stage 3")
    return notes


def _fp32(data: dict[str, Any]) -> tuple[str, ...]:
    """The reason against a verdict where products run in fp32."""
    halves = any(_enabled(data.get(name)) for name in ("bf16", "bfloat16", "fp16", "amp", "torch_autocast"))
    return () if halves else ("neither bf16 nor fp16 is enabled: products in fp32 take more; enable bf16",)


def _enabled(section: Any) -> bool:
    return isinstance(section, dict) and bool(section.get("enabled"))
