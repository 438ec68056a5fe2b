"""``--from-accelerate FILE.yaml``: the launcher's YAML. Model, sequence length and batch live in the training script."""

from __future__ import annotations

from typing import Any

from cost_models.inputs.program import Program
from lcplan.formats.booleans import truth, unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_yaml
from planner.trainers.accelerate.facts import ROTATION
from planner.trainers.accelerate.read_script import launch_of_script
from planner.trainers.accelerate.read_sharding import Way, way_of
from planner.trainers.common.imported import Imported, mesh_text, nested, whole, with_changes
from planner.trainers.common.known_keys import known_keys, notes_on, unknown_keys

_PARALLEL = "parallelism_config_"
_ELSEWHERE = "give the file of `accelerate launch`, not a training script's own"


def read(file: str, devices: int | None = None) -> Imported:
    """Read the YAML.

    Raises
    ------
    BadInputError
        Neither such a YAML nor a script with ``accelerate launch``, a value that Accelerate has not, or something that lcplan
        has no word for.
    """
    data = launch_of_script(file) if file.endswith((".sh", ".slurm", ".sbatch", ".bash")) else read_yaml(file)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInputError(f"{file}: not an Accelerate configuration; it must be a YAML mapping of names to values")
    return imported(data, devices=devices, file=file)


def imported(data: dict[str, Any], *, devices: int | None, file: str) -> Imported:
    """Read the settings of a launch, in the words of the launcher's YAML."""
    data = unquoted(data)
    parallel, fsdp = (
        _section(data, "parallelism_config", prefix=_PARALLEL, file=file),
        _section(data, "fsdp_config", prefix="fsdp_", file=file),
    )
    keys = _keys(data, parallel, fsdp=fsdp, file=file)
    devices = whole(data["num_processes"], "num_processes", file=file) if "num_processes" in data else devices
    way = way_of(data, fsdp, file=file)
    sizes = _sizes(parallel, way, devices=devices, file=file)
    options: dict[str, Any] = {"devices": devices or _product(sizes), "mesh": mesh_text(sizes)}
    if options["devices"] != _product(sizes):
        raise BadInputError(
            f"{file}: parallelism_config multiplies to {_product(sizes)}, num_processes is {options['devices']}"
        )
    if sizes["context"] > 1:
        options["scheme"] = (_scheme(parallel, file),)
    if "fsdp_activation_checkpointing" in fsdp:
        options["remat"] = (_remat(fsdp, file=file),)
    options |= {"gather_dtype": ("bf16",), "reduce_dtype": ("bf16",)}
    options |= {"moments_dtype": ("fp32",)} if way.kind == "deepspeed" else {}  # else those of the loaded parameters
    settings = _settings(data, parallel, fsdp=fsdp)
    return Imported(
        "accelerate",
        file,
        options,
        unknown=unknown_keys("accelerate", keys),
        notes=(*_notes(data), *way.notes, *notes_on("accelerate", settings)),
        unpriced=tuple(notes_on("accelerate", settings, takes_memory=True)),
        more=way.differences,
        refuses=lambda job: way.refusals(job, ulysses=_size(parallel, "sp_size", file=file) > 1),
        program=_program(way, parallel, file=file),
        waives=way.waives,
        whole_weights=way.whole_weights,
        settings=settings,
        again=lambda changes: imported(nested(with_changes(settings, changes)), devices=devices, file=file),
    )


def _program(way: Way, parallel: dict[str, Any], *, file: str) -> Program:
    """Return the priced step: torch's context parallelism runs in SDPA, whose kernel from Hopper on is cuDNN's.

    Source: pytorch.org/blog/pytorch2-5, "enabled by default for all users of SDPA on H100 or newer GPUs".
    """
    rotates = _size(parallel, "cp_size", file=file) > 1
    return way.program.model_copy(update={"attention": "cudnn-2025"}) if rotates else way.program


def _keys(data: dict[str, Any], parallel: dict[str, Any], *, fsdp: dict[str, Any], file: str) -> list[str]:
    """Every key, nested ones with their section before a dot; some of them must be Accelerate's."""
    keys = [key for key in data if isinstance(key, str)]
    keys += [f"parallelism_config.{key}" for key in parallel] + [f"fsdp_config.{key}" for key in fsdp]
    if not any(key in known_keys("accelerate") for key in keys):
        raise BadInputError(f"{file}: Accelerate knows no key of it ({', '.join(keys[:5])}): {_ELSEWHERE}")
    return keys


def _settings(data: dict[str, Any], parallel: dict[str, Any], *, fsdp: dict[str, Any]) -> dict[str, Any]:
    """Every value by its key, nested ones with their section before a dot."""
    sections = {"parallelism_config": parallel, "fsdp_config": fsdp}
    sections |= {"deepspeed_config": data["deepspeed_config"]} if isinstance(data.get("deepspeed_config"), dict) else {}
    alone = {key: value for key, value in data.items() if key not in sections}
    return alone | {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}


def _section(data: dict[str, Any], name: str, *, prefix: str, file: str) -> dict[str, Any]:
    """A section with its keys under their full names: Accelerate takes them with the prefix or without."""
    section = data.get(name) or {}
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise BadInputError(f"{file}: {name} is not a mapping of keys to values")
    return {key if key.startswith(prefix) else prefix + key: value for key, value in section.items()}


def _size(parallel: dict[str, Any], name: str, *, file: str) -> int:
    return whole(parallel.get(_PARALLEL + name, 1), _PARALLEL + name, file=file)


def _sizes(parallel: dict[str, Any], way: Way, *, devices: int | None, file: str) -> dict[str, int]:
    context, sequence = _size(parallel, "cp_size", file=file), _size(parallel, "sp_size", file=file)
    if context > 1 and sequence > 1:
        raise BadInputError(f"{file}: cp_size and sp_size are both above 1; Accelerate takes one of them")
    others = context * sequence * _size(parallel, "tp_size", file=file)
    if parallel and way.sharded_by_mesh:
        copies, shards = _size(parallel, "dp_replicate_size", file=file), _size(parallel, "dp_shard_size", file=file)
        return {"data": copies, "fsdp": shards, "context": context * sequence, "tensor": _size(parallel, "tp_size", file=file)}
    if devices is None:
        raise BadInputError(f"{file}: neither num_processes nor parallelism_config; give --devices")
    ranks, rest = divmod(devices, others)
    copies = way.copies(ranks)
    if rest or not ranks or ranks % copies:
        raise BadInputError(
            f"{file}: {others} ranks that share a sequence and {copies} replicas do not divide {devices} processes"
        )
    return {
        "data": copies,
        "fsdp": ranks // copies,
        "context": context * sequence,
        "tensor": _size(parallel, "tp_size", file=file),
    }


def _product(sizes: dict[str, int]) -> int:
    return sizes["data"] * sizes["fsdp"] * sizes["context"] * sizes["tensor"]


def _remat(fsdp: dict[str, Any], *, file: str) -> str:
    """Checkpointing, with each layer's input on the device or on the host (``activation_checkpointing_offload``, FSDP2)."""
    if not truth(fsdp, "fsdp_activation_checkpointing", file=file):
        return "save-all"
    return "offload-layer-in" if truth(fsdp, "fsdp_activation_checkpointing_offload", file=file) else "full"


def _scheme(parallel: dict[str, Any], file: str) -> str:
    if int(parallel.get(f"{_PARALLEL}sp_size", 1)) > 1:
        return "ulysses"
    backend = str(parallel.get(f"{_PARALLEL}cp_backend", "torch"))
    if backend != "torch":
        raise BadInputError(f"{file}: {_PARALLEL}cp_backend {backend!r}: Accelerate has only torch and ignores others silently")
    rotation = str(parallel.get(f"{_PARALLEL}cp_comm_strategy", "allgather"))
    names = {theirs: ours for ours, theirs in ROTATION.items()}
    if rotation not in names:
        raise BadInputError(f"{file}: {_PARALLEL}cp_comm_strategy {rotation!r}{hint(rotation, names)}")
    return names[rotation]


def _notes(data: dict[str, Any]) -> tuple[str, ...]:
    """Without mixed precision the loaded dtype is trained (huggingface.co/blog/deepspeed-to-fsdp-and-back)."""
    precision = data.get("mixed_precision")
    if precision == "bf16":
        return ()
    note = f"mixed_precision={precision}: lcplan prices bf16 with fp32 masters, 16 bytes a parameter"
    alone = precision in (None, "no", False)
    return (note + "; a model that the script loads in bf16 keeps all of its state so, in 8" * alone,)
