"""A run of a front end, translated into the words of Accelerate's or DeepSpeed's own file and read by that reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lcplan import catalog
from lcplan.catalog.hub_names import hub_model
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import named_beside, read_json
from lcplan.spec.model import ModelSpec
from planner.trainers.accelerate.read import imported as read_accelerate
from planner.trainers.common.imported import Imported, whole
from planner.trainers.deepspeed.read import imported as read_deepspeed

FUSED_TOKENS = 1024
"""Longest chunk of a fused loss that is priced; Liger's own are shorter the larger the vocabulary is against the width (github
linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py)."""
FURTHER = "lcplan prices a step of one model on whole sequences, and this has further models or passes"
EVERY = "lcplan prices the training of every parameter, which takes more"
OWN_CONTEXT = ("accelerate-windows", "accelerate-sinks", "accelerate-chunks", "accelerate-shards", "accelerate-replicas")
"""Rules of torch's context parallelism, which a front end with ring attention of its own does not use."""


@dataclass(frozen=True)
class HubRun:
    """The settings of a run that a file states, in plain words."""

    file: str
    title: str
    model: str | None
    seq: int | None
    micro: int
    steps: int
    devices: int | None
    checkpointing: str | None
    """A remat policy; None: the launcher's file decides."""
    deepspeed: Mapping[str, Any] | None = None
    """The content of a DeepSpeed file."""
    launch: Mapping[str, Any] = field(default_factory=dict)
    """Settings in the words of Accelerate's YAML: ``distributed_type``, ``fsdp_config``, ``parallelism_config``."""
    context: int = 1
    tensor: int = 1
    scheme: str | None = None
    """The way in which context ranks attend, where it is not that of Accelerate or DeepSpeed."""
    fused_loss: bool = False
    rounded: bool = False
    """Whether parameters are loaded in bf16, and so are gradients and moments; DeepSpeed keeps fp32 masters all the same."""
    document_len: int | None = None
    notes: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def imported_run(run: HubRun) -> Imported:
    """Return the run as an import of the trainer that it is started with.

    Raises
    ------
    BadInputError
        The number of devices is unknown, or sizes do not divide.
    """
    base = _base(run)
    return _of_base(run, base, options=_batch(run, base))


def _batch(run: HubRun, base: Imported) -> dict[str, Any]:
    """Return the base's options with the run's own batch and checkpointing."""
    options = {key: value for key, value in base.options.items() if key not in ("global_batch", "microbatches")}
    options |= {"global_batch": run.micro * run.steps * _ranks(base.options["mesh"]), "microbatches": (run.steps,)}
    options |= {"remat": (run.checkpointing,)} if run.checkpointing else {}
    return options | _rounded(run, base)


def _rounded(run: HubRun, base: Imported) -> dict[str, Any]:
    return {"moments_dtype": ("bf16",)} if run.rounded and "moments_dtype" not in base.options else {}


def _changed(run: HubRun, base: Imported, changes: Mapping[str, Any]) -> Imported:
    """Return the run with settings of its launch changed; its batch and checkpointing are then open."""
    assert base.again is not None, "both readers read a file again"
    again = base.again(changes)
    kept = {key: value for key, value in again.options.items() if key != "remat"}
    return _of_base(run, again, options=kept | _rounded(run, again))


def _of_base(run: HubRun, base: Imported, *, options: dict[str, Any]) -> Imported:
    """Return the launch that a base states with the facts of the run."""
    model, notes = _model(run.model)
    options |= {"model": model} if model else {}
    options |= {"seq": run.seq} if run.seq else {}
    options |= {"scheme": (run.scheme,)} if run.scheme and run.context > 1 else {}
    options |= _fused(run)
    own = run.scheme is not None and run.context > 1
    return replace(
        base,
        file=run.file,
        options=options,
        through=run.title,
        unknown=(*run.unknown, *base.unknown),
        notes=(*run.notes, *notes, *(note for note in base.notes if "mixed_precision" not in note)),
        unpriced=(*run.unpriced, *base.unpriced),
        waives=(*base.waives, *(OWN_CONTEXT if own else ())),
        refuses=(lambda _: []) if own else base.refuses,
        again=None if own else lambda changes: _changed(run, base, changes),
    )


def _base(run: HubRun) -> Imported:
    if run.devices is None:
        raise BadInputError(f"{run.file}: {run.title} runs on the devices that its launcher finds; give --devices or --hw")
    others = run.context * run.tensor
    if run.devices % others:
        raise BadInputError(f"{run.file}: context x tensor = {others} ranks do not divide {run.devices} devices")
    if run.deepspeed is not None:
        return read_deepspeed(_zero(run), devices=run.devices, file=run.file)
    launch: dict[str, Any] = {"mixed_precision": "bf16", **run.launch}
    if not launch.get("distributed_type"):
        launch["distributed_type"] = "MULTI_GPU" if run.devices > 1 else "NO"
    launch["num_processes"] = run.devices
    parallel = dict(launch.get("parallelism_config") or {})
    if others > 1:
        parallel |= {"cp_size": run.context, "tp_size": run.tensor}
        launch["parallelism_config"] = parallel
    if parallel and launch["distributed_type"] == "FSDP" and not any("dp_" in key for key in parallel):
        launch["parallelism_config"] = parallel | {"dp_shard_size": run.devices // others}
    return read_accelerate(launch, devices=run.devices, file=run.file)


def _zero(run: HubRun) -> dict[str, Any]:
    """A DeepSpeed file whose batch numbers are the run's."""
    assert run.deepspeed is not None
    batches = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    data = {key: value for key, value in run.deepspeed.items() if key not in batches}
    data |= {"train_micro_batch_size_per_gpu": run.micro, "gradient_accumulation_steps": run.steps}
    if run.context > 1:
        data["sequence_parallel_size"] = run.context
    if run.tensor > 1:
        data["tensor_parallel"] = {"autotp_size": run.tensor}
    return data


def _ranks(mesh: str) -> int:
    """Ranks with sequences of their own."""
    sizes = {name: int(size) for name, _, size in (part.partition("=") for part in mesh.split(","))}
    return sizes["data"] * sizes["fsdp"] * sizes.get("expert", 1)


def _model(name: str | None) -> tuple[ModelSpec | None, list[str]]:
    if name is None:
        return None, ["the file names no model: give --model"]
    if Path(name).is_dir() and (Path(name) / "config.json").is_file():
        return catalog.model(name), []
    found = hub_model(name)
    return found, [] if found else [f"{name} is not in the catalogue: give --model"]


def _fused(run: HubRun) -> dict[str, Any]:
    """The loss chunk of a fused loss: the longest that divides a rank's tokens."""
    if not run.fused_loss or not run.seq:
        return {}
    local = run.seq // run.context
    return {"loss_chunk_tokens": (next(size for size in range(min(FUSED_TOKENS, local), 0, -1) if local % size == 0),)}


def deepspeed_file(value: Any, *, file: str) -> dict[str, Any]:
    """Return the content of a DeepSpeed setting: a path, or the settings themselves.

    Raises
    ------
    BadInputError
        The file is neither where the setting has it, nor in the folder of the configuration.
    """
    if isinstance(value, dict):
        return value
    path = Path(str(value))
    found = path if path.is_file() else named_beside(str(value), file)
    if found is None:
        raise BadInputError(f"{file}: deepspeed: {value!s:.100} is not there; put that JSON into the folder of {file}")
    data = read_json(found)
    if not isinstance(data, dict):
        raise BadInputError(f"{found}: not a DeepSpeed configuration; it must be a JSON object")
    return data


def count(settings: Mapping[str, Any], name: str, *, default: int, file: str) -> int:
    """A whole number above zero of the settings; ``auto`` and a missing one are the default."""
    value = settings.get(name)
    return default if value in (None, "auto", "") else whole(value, name, file=file)


def fsdp_launch(config: Any, words: Any, *, file: str) -> dict[str, Any]:
    """Accelerate's words for the ``fsdp`` and ``fsdp_config`` of Transformers' arguments; empty without FSDP.

    Raises
    ------
    BadInputError
        ``fsdp_config`` is neither a mapping nor the path of one.
    """
    if not words and not config:
        return {}
    if isinstance(config, str):
        config = deepspeed_file(config, file=file)
    if not isinstance(config or {}, dict):
        raise BadInputError(f"{file}: fsdp_config is not a mapping of keys to values")
    section = {str(key).removeprefix("fsdp_"): value for key, value in (config or {}).items()}
    section["version"] = section.get("version", 1)
    asked = str(words if not isinstance(words, list) else " ".join(map(str, words))).lower() if words else ""
    strategies = {"full_shard": "FULL_SHARD", "shard_grad_op": "SHARD_GRAD_OP", "hybrid_shard": "HYBRID_SHARD"}
    strategies |= {"hybrid_shard_zero2": "HYBRID_SHARD_ZERO2", "no_shard": "NO_SHARD"}
    named = next((theirs for ours, theirs in strategies.items() if ours in asked.split()), None)
    if section["version"] == 1 and named is not None:
        section.setdefault("sharding_strategy", named)
    if "offload" in asked.split():
        section["offload_params"] = True
    known = {"version", "sharding_strategy", "offload_params", "reshard_after_forward", "activation_checkpointing"}
    known |= {"activation_checkpointing_offload", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params"}
    known |= {"backward_prefetch", "forward_prefetch", "use_orig_params", "state_dict_type", "cpu_ram_efficient_loading"}
    known |= {"sync_module_states"}
    return {"distributed_type": "FSDP", "fsdp_config": {f"fsdp_{key}": value for key, value in section.items() if key in known}}
