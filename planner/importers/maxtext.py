"""``--from-maxtext FILE.yml``: a MaxText configuration, over base.yml or over other files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lcplan.errors import BadInputError
from lcplan.strategy import AXIS_ORDERS, AxisName
from lcplan.suggest import hint
from lcplan.textfile import read_yaml
from planner.importers.interface import Imported, mesh_text, number, whole
from planner.importers.maxtext_mesh import mesh_sizes, target_of
from planner.importers.maxtext_model import model_of
from planner.importers.maxtext_refusals import refusals_of
from planner.importers.remat import nearest_superset
from planner.trainers.known_keys import unknown_keys
from planner.trainers.maxtext import SAVED, SCHEMES, SPLASH_BLOCKS

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "gradient_accumulation_steps": 1,
        "num_vocab_tiling": 1,
        "remat_policy": "full",
        "attention": "autoselected",
        "context_parallel_strategy": "all_gather",
        "context_parallel_load_balance": True,
        "weight_dtype": "float32",
        "dtype": "bfloat16",
        "mu_dtype": "",
        "packing": True,
        "dataset_type": "tfds",
        "scan_layers": True,
        "capacity_factor": -1.0,
        "use_tokamax_splash": False,
        "use_jax_splash": False,
        "dq_reduction_steps": 0,
        "ring_scan_unroll": 1,
        "context_parallel_reorder_strategy": "auto",
        "max_segments_per_seq": -1,
        "mtp_num_layers": 0,
        "enable_dropout": True,
        "dropout_rate": 0.0,
        "attention_sink": False,
        "quantization": "",
    }
)
"""What base.yml of 0.2.5 says of the keys that lcplan reads and that have one default for every machine."""

_QKV, _OUT, _MLP = ("query", "key", "value"), ("attention_out",), ("gate", "up")
REMAT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "full": (),
        "save_out_proj": _OUT,
        "save_qkv_proj": _QKV,
        "save_dot_except_mlp": (*_QKV, *_OUT),
        "save_dot_with_context_except_mlp": (*_QKV, "context", "lse", *_OUT),
        "save_dot_except_mlpwi": (*_QKV, *_OUT),
        "minimal": (*_QKV, *_OUT, *_MLP),
        "minimal_with_quantization": (*_QKV, *_OUT, *_MLP),
        "minimal_with_context": (*_QKV, "context", "lse", *_OUT, *_MLP),
        "minimal_flash": (*_QKV, "context", "lse", *_OUT, *_MLP),
        "minimal_with_context_and_quantization": (*_QKV, "context", "lse", *_OUT, *_MLP),
        "none": (*_QKV, "context", "lse", *_OUT, *_MLP),
    }
)
"""lcplan's named tensors that each of MaxText's policies saves on the device; ``custom`` says its own."""
OFFLOADED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"qkv_proj_offloaded": _QKV, "minimal_offloaded": (*_QKV, *_OUT, *_MLP)}
)
"""What those of its policies that offload send to the host."""
ATTENTIONS = ("autoselected", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax")
UNPRICED = MappingProxyType(
    {
        "quantization": "lcplan prices bf16",
        "optimizer_memory_host_offload": "lcplan keeps the optimizer's state on the device",
        "parameter_memory_host_offload": "lcplan keeps parameters on the device",
    }
)


def read(file: str, devices: int | None = None, *, slices: int = 1) -> Imported:
    """What the configuration says, for a job of so many devices in so many slices where that is known.

    Raises
    ------
    BadInputError
        Not a YAML mapping, a value that MaxText has not (with the nearest), or something that lcplan has no word for.
    """
    said, notes = _merged(Path(file), [])
    unknown = unknown_keys("maxtext", said)
    values = {**DEFAULTS, **said}
    target = target_of(values, file=file, devices=devices, slices=slices)
    sizes, more = mesh_sizes(values, target, file=file)
    options: dict[str, Any] = {"devices": target.devices, "mesh": mesh_text(sizes)} | target.hardware
    model, model_notes = model_of(said, file=file)
    options |= {"model": model} if model else {}
    options |= _batch(values, sizes, devices=target.devices, file=file)
    options |= _attention(values, context=sizes["context"], file=file) | _tiles(said, file=file)
    remat, remat_notes = _remat(values, file=file)
    options |= {"remat": (remat,), "gather_dtype": ("bf16",), "reduce_dtype": ("bf16",), "moments_dtype": ("fp32",)}
    return Imported(
        trainer="maxtext",
        file=file,
        options=options,
        axis_order=_order(values),
        unknown=unknown,
        notes=(*notes, *more, *model_notes, *remat_notes, *_unpriced(values)),
        refuses=refusals_of(values),
    )


def _merged(file: Path, notes: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The file over the files that its ``base_config`` names, as far as they lie beside it."""
    data = read_yaml(file)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInputError(f"{file}: not a MaxText configuration; it must be a YAML mapping of keys to values")
    base = data.get("base_config")
    if base in (None, "base.yml"):
        return data, notes
    beside = file.parent / str(base)
    if beside == file or not beside.is_file():
        return data, [*notes, f"base_config {base} is not beside {file}: its keys were not read"]
    under, notes = _merged(beside, notes)
    return {**under, **data}, notes


def _batch(values: Mapping[str, Any], sizes: Mapping[str, int], *, devices: int, file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    steps = whole(values["gradient_accumulation_steps"], "gradient_accumulation_steps", file=file)
    found["microbatches"] = (steps,)
    if "max_target_length" in values:
        found["seq"] = whole(values["max_target_length"], "max_target_length", file=file)
    if "per_device_batch_size" not in values:
        return found
    size = number(values["per_device_batch_size"], "per_device_batch_size", file=file)
    if int(devices * size) < 1:
        raise BadInputError(f"{file}: per_device_batch_size={size!r} on {devices} devices is no sequence at all")
    found["global_batch"] = int(devices * size) * steps
    ranks = sizes["data"] * sizes["fsdp"] * sizes["expert"]
    tiles = whole(values["num_vocab_tiling"], "num_vocab_tiling", file=file)
    if "seq" in found and int(devices * size) % ranks == 0:
        local = found["seq"] // sizes["context"]
        tokens = int(devices * size) // ranks * local // tiles
        found["loss_chunk_tokens"] = (min(local, max(1, tokens)),)
    return found


def _attention(values: Mapping[str, Any], *, context: int, file: str) -> dict[str, Any]:
    attention = str(values["attention"])
    if attention not in ATTENTIONS:
        raise BadInputError(f"{file}: attention {attention!r} is none that MaxText trains with{hint(attention, ATTENTIONS)}")
    strategy = str(values["context_parallel_strategy"]).lower()
    names = {theirs: ours for ours, (theirs, balanced) in SCHEMES.items() if theirs != "ring" or not balanced}
    if strategy not in names:
        reason = "lcplan has no two-dimensional scheme" if strategy == "usp" else "unknown"
        raise BadInputError(f"{file}: context_parallel_strategy {strategy!r}: {reason}{hint(strategy, names)}")
    if context == 1:
        return {}
    balanced = bool(values["context_parallel_load_balance"])
    return {"scheme": ("ring-zigzag",) if strategy == "ring" and balanced else (names[strategy],)}


def _tiles(said: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """Splash attention's alone; without a word of it, MaxText's 512 is what the step has anyway."""
    if said.get("attention") != "flash" or "sa_block_q" not in said:
        return {}
    return {"attention_block": (whole(said["sa_block_q"], "sa_block_q", file=file),)}


def _remat(values: Mapping[str, Any], *, file: str) -> tuple[str, list[str]]:
    policy = str(values["remat_policy"])
    if policy in OFFLOADED:
        return nearest_superset((), OFFLOADED[policy])[0], []
    if policy == "custom":
        return _custom(values)
    if policy not in REMAT:
        raise BadInputError(
            f"{file}: remat_policy {policy!r} is none of MaxText's{hint(policy, (*REMAT, *OFFLOADED, 'custom'))}"
        )
    name, exact = nearest_superset(REMAT[policy])
    return name, [] if exact else [f"remat_policy {policy} is priced as {name}, the nearest that keeps at least as much"]


def _custom(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    names = {theirs for group in SAVED.values() for theirs in group} | {"mlpwi", "mlpwo", "qkv_proj", "kv_proj"}
    device, away = (_ours({name for name in names if values.get(name) == place}) for place in ("device", "offload"))
    name, exact = nearest_superset(device, away)
    return name, [] if exact else [f"remat_policy custom is priced as {name}, the nearest that keeps at least as much"]


def _ours(theirs: set[str]) -> set[str]:
    """lcplan's named tensors among MaxText's."""
    found = {ours for ours, names in SAVED.items() if set(names) & theirs}
    found |= set(_QKV) if "qkv_proj" in theirs else set()
    return found | (set(_MLP) if "mlpwi" in theirs else set())


def _order(values: Mapping[str, Any]) -> tuple[AxisName, ...] | None:
    axes = values.get("mesh_axes")
    if not isinstance(axes, list) or "fsdp" not in axes or "context" not in axes:
        return None
    return AXIS_ORDERS[0] if axes.index("fsdp") < axes.index("context") else AXIS_ORDERS[1]


def _unpriced(values: Mapping[str, Any]) -> list[str]:
    notes = [f"{key}={values[key]}: {why}" for key, why in UNPRICED.items() if values.get(key)]
    sizes = {key: values[key] for key in SPLASH_BLOCKS if key in values}
    if len({*sizes.values()}) > 1:
        notes.append(f"{', '.join(sizes)}: lcplan has one size for all tiles of attention and takes the queries'")
    if values["capacity_factor"] not in (-1, -1.0):
        notes.append(
            f"capacity_factor={values['capacity_factor']}: lcplan prices dropless dispatch; --moe-dispatch capacity with "
            "--moe-room-percent prices the other"
        )
    if not values["scan_layers"]:
        notes.append(
            "scan_layers=false: lcplan prices scanned layers; XLA may keep every unrolled layer's activations alive at once "
            "(openxla/xla#45753: 290 GB where scanned layers take 62); set scan_layers=true, or believe a compile alone"
        )
    if values["weight_dtype"] != "float32":
        notes.append(f"weight_dtype={values['weight_dtype']}: lcplan prices fp32 master parameters")
    if values["mu_dtype"] not in ("", "float32", None):
        notes.append(f"mu_dtype={values['mu_dtype']}: lcplan prices both moments in fp32, as the second one is")
    if values.get("context_parallel_strategy") == "all_gather" and not values["context_parallel_load_balance"]:
        notes.append("context_parallel_load_balance=false: the last rank works longest; lcplan prices a balanced all-gather")
    return notes
