"""``--from-maxtext FILE``: a MaxText configuration over base.yml or over other files of its folder, or a command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lcplan.formats.booleans import truth
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.strategy import AXIS_ORDERS, AxisName
from planner.trainers.common.imported import Imported, mesh_text, number, whole, with_changes
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.maxtext.experts import read_dispatch
from planner.trainers.maxtext.facts import SCHEMES, SPLASH_BLOCKS
from planner.trainers.maxtext.read_memory import MOMENTS, Beyond
from planner.trainers.maxtext.read_mesh import inside_a_slice, mesh_sizes, target_of
from planner.trainers.maxtext.read_model import base_model, model_of
from planner.trainers.maxtext.read_remat import kept
from planner.trainers.maxtext.reading.file import Said
from planner.trainers.maxtext.reading.file import said as said_by
from planner.trainers.maxtext.reading.flags import COMPILE_KEY, read_flags
from planner.trainers.maxtext.reading.programs import LATENT, attention_notes, program_of, refuse_other_programs
from planner.trainers.maxtext.reading.words import notes_on_words, topology_of, unresolved_of
from planner.trainers.maxtext.refusals import refusals_of

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
        "opt_type": "adamw",
        "packing": True,
        "dataset_type": "tfds",
        "scan_layers": True,
        "capacity_factor": -1.0,
        "sparse_matmul": True,
        "use_tokamax_splash": False,
        "use_jax_splash": False,
        "dq_reduction_steps": 0,
        "ring_scan_unroll": 1,
        "context_parallel_reorder_strategy": "auto",
        "max_segments_per_seq": -1,
        "allow_split_physical_axes": False,
        "mtp_num_layers": 0,
        "enable_dropout": True,
        "dropout_rate": 0.0,
        "attention_sink": False,
        "quantization": "",
    }
)
"""Defaults of base.yml of 0.2.5 for the keys that lcplan reads, where they are the same on every machine."""

NEAREST = "the nearest that keeps at least as much"
ATTENTIONS = ("autoselected", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax")
UNPRICED = MappingProxyType(
    {
        "quantization": "lcplan prices bf16",
        "optimizer_memory_host_offload": "memory is counted, the time to move the optimizer's state is not",
        "parameter_memory_host_offload": "memory is counted, the time to move parameters is not",
    }
)


def read(file: str, devices: int | None = None, *, slices: int = 1) -> Imported:
    """Read the configuration, for a job of ``devices`` in ``slices``, if known.

    Raises
    ------
    BadInputError
        Not a YAML mapping, a value that MaxText has not (with the nearest), or something that lcplan has no word for.
    """
    return _imported(said_by(Path(file)), file=file, devices=devices, slices=slices)


def _imported(given: Said, *, file: str, devices: int | None, slices: int) -> Imported:
    """Return the configuration that the keys and values state."""
    said, unresolved = given.values, unresolved_of(given, file=file)
    values = {**DEFAULTS, **said}
    _check(values, file=file)
    refuse_other_programs(values, program=given.program, file=file)
    target = target_of({**values, **topology_of(given, devices)}, file=file, devices=devices, slices=slices)
    sizes, more = mesh_sizes(values, target, file=file)
    options: dict[str, Any] = {"devices": target.devices, "mesh": mesh_text(sizes)} | target.hardware
    model, model_notes = model_of(said, file=file)
    options |= ({"model": model} if model else {}) | _batch(values, sizes, devices=target.devices, file=file)
    defaults = _defaults(values, sizes, devices=target.devices, file=file) | _default_model(said, unresolved)
    options |= _attention(values, context=sizes["context"], file=file) | _tiles(said, file=file)
    options |= read_dispatch(values, file=file)
    flags, tensors = read_flags(str(values.get(COMPILE_KEY) or "").split()), kept(values, file=file)
    options |= flags.options
    remat, exact = tensors.priced
    remat_notes = [] if exact else [f"remat_policy {values['remat_policy']} is priced as {remat}, {NEAREST}"]
    options |= {"remat": (remat,), "gather_dtype": ("bf16",), "reduce_dtype": ("bf16",), "moments_dtype": ("fp32",)}
    if values["remat_policy"] == "none" and values["scan_layers"]:
        remat_notes.append("remat_policy none over scanned layers compiles to the same program as full, and is priced as full")
    words = notes_on_words(given, devices, unresolved=unresolved)

    def again(settings: dict[str, Any]) -> Imported:
        return _imported(replace(given, values=settings), file=file, devices=devices, slices=slices)

    return Imported(
        trainer="maxtext",
        file=file,
        options=options,
        defaults={key: value for key, value in defaults.items() if key not in options},
        axis_order=_order(values),
        unknown=unknown_keys("maxtext", [*said, *given.unknown]),
        notes=(*given.notes, *words, *more, *model_notes, *remat_notes, *flags.notes, *_noted(values, said)),
        more=Beyond(values, tensors),
        unpriced=(*notes_on("maxtext", said, takes_memory=True), *_unbounded(values)),
        program=program_of(values),
        unresolved=unresolved,
        refuses=refusals_of(values, inside_a_slice(values, target, file=file)),
        settings={**said, "slices": target.slices},
        again=lambda changes: again(with_changes(said, changes)),
    )


def _default_model(said: Mapping[str, Any], unresolved: Collection[str]) -> dict[str, tuple[Any, str]]:
    """Return base.yml's model where the file names no other."""
    named = said.get("model_name", "default") != "default" or "model" in unresolved
    return {} if named or said.get("attention_type") == LATENT else {"model": (base_model(), "model_name: default")}


def _noted(values: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """List notes on keys that are priced differently from the file."""
    return [*_unpriced(values), *attention_notes(values), *notes_on("maxtext", said)]


def _check(values: Mapping[str, Any], *, file: str) -> None:
    """Check values that several readers rely on, and every boolean."""
    for key in (key for key, default in DEFAULTS.items() if isinstance(default, bool)):
        truth(values, key, file=file)
    whole(values["num_vocab_tiling"], "num_vocab_tiling", file=file)
    if values["mtp_num_layers"] != 0:
        whole(values["mtp_num_layers"], "mtp_num_layers", file=file)
    kind = str(values["opt_type"])
    if kind not in MOMENTS:
        raise BadInputError(f"{file}: MaxText has no opt_type {kind!r}{hint(kind, MOMENTS)}")


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
        found["loss_chunk_tokens"] = (_chunk(local, max(1, tokens), tensor=sizes["tensor"]),)
    return found


_SEQ, _SIZE = "max_target_length", "per_device_batch_size"
_BATCH = {_SEQ: 2048, _SIZE: 12.0}


def _defaults(values: Mapping[str, Any], sizes: Mapping[str, int], *, devices: int, file: str) -> dict[str, tuple[Any, str]]:
    """Return base.yml's batch for missing keys."""
    found = _batch({**_BATCH, **values}, sizes, devices=devices, file=file)
    words = {"seq": f"{_SEQ}: {_BATCH[_SEQ]}", "global_batch": f"{_SIZE}: {_BATCH[_SIZE]:g}"}
    return {key: (value, words.get(key, "")) for key, value in found.items()}


def _chunk(local: int, tokens: int, *, tensor: int) -> int:
    """Return the smallest valid loss chunk of ``local`` tokens that holds a tile; all tokens if no chunk does."""
    pieces = (piece for piece in range(local // tokens, 0, -1) if local % piece == 0)
    return next((local // piece for piece in pieces if local // piece % tensor == 0), local)


def _attention(values: Mapping[str, Any], *, context: int, file: str) -> dict[str, Any]:
    attention = str(values["attention"])
    if attention not in ATTENTIONS:
        raise BadInputError(f"{file}: MaxText has no attention {attention!r}{hint(attention, ATTENTIONS)}")
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
    """Read the block of splash attention only; the default, 512 in MaxText, is also the step's."""
    if said.get("attention") != "flash" or "sa_block_q" not in said:
        return {}
    return {"attention_block": (whole(said["sa_block_q"], "sa_block_q", file=file),)}


def _order(values: Mapping[str, Any]) -> tuple[AxisName, ...] | None:
    axes = values.get("mesh_axes")
    if not isinstance(axes, list) or "fsdp" not in axes or "context" not in axes:
        return None
    return AXIS_ORDERS[0] if axes.index("fsdp") < axes.index("context") else AXIS_ORDERS[1]


def _unbounded(values: Mapping[str, Any]) -> list[str]:
    """List settings whose memory no model bounds: only a compile can."""
    found = [] if values["scan_layers"] else ["scan_layers=false: XLA may keep the activations of all unrolled layers at once"]
    return found + ([f"dtype={values['dtype']}: activations in fp32 take more"] if values["dtype"] == "float32" else [])


def _unpriced(values: Mapping[str, Any]) -> list[str]:
    notes = [f"{key}={values[key]}: {why}" for key, why in UNPRICED.items() if values.get(key)]
    sizes = {key: values[key] for key in SPLASH_BLOCKS if key in values}
    if len({*sizes.values()}) > 1:
        notes.append(f"{', '.join(sizes)}: lcplan has one size for all tiles of attention and takes the queries'")
    if values["capacity_factor"] not in (-1, -1.0) and values["sparse_matmul"]:
        notes.append(f"capacity_factor={values['capacity_factor']} next to sparse_matmul: lcplan prices dropless dispatch")
    if not values["scan_layers"]:
        notes.append(
            "scan_layers=false: lcplan prices scanned layers; XLA may keep the activations of all unrolled layers at once "
            "(openxla/xla#45753: 290 GB where scanned layers take 62); set scan_layers=true, or trust only a compile"
        )
    if values["dtype"] != "bfloat16":
        notes.append(f"dtype={values['dtype']}: lcplan prices bf16 activations and products")
    if values.get("context_parallel_strategy") == "all_gather" and not values["context_parallel_load_balance"]:
        notes.append("context_parallel_load_balance=false: the last rank works longest; lcplan prices a balanced all-gather")
    return notes
