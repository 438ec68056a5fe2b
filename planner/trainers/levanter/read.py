"""``--from-levanter FILE.yaml``: the configuration of ``levanter.main.train_lm``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.nearest import near_multiples
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_yaml
from planner.trainers import Difference, Job
from planner.trainers.common.imported import Imported, mesh_text, whole
from planner.trainers.common.known_keys import known_keys, notes_on, unknown_keys
from planner.trainers.common.rules import bf16_masters
from planner.trainers.levanter.read_mesh import Layout, layout_of
from planner.trainers.levanter.read_model import model_of

NESTED = "nested checkpointing keeps fewer layer inputs and recomputes more often: memory and time are priced as one per layer"
POLICIES: Mapping[bool | str, str] = MappingProxyType(
    {
        True: "full",
        False: "save-all",
        "recompute": "full",
        "full": "full",
        "save_all": "save-all",
        "offload": "offload-layer-in",
        "nested": "full",
    }
)
"""Words of ``gradient_checkpointing`` (haliax ``_src/scan.py``, ``from_bool_or_str``)."""
_WORDS = tuple(word for word in POLICIES if isinstance(word, str))
HALF = ("bf16", "bfloat16", "half")


def read(file: str, devices: int | None = None, *, slices: int = 1) -> Imported:
    """Read the configuration, for a job of ``devices`` in ``slices``, if known.

    Raises
    ------
    BadInputError
        Not such a YAML, sizes that do not multiply, or something that lcplan has no word for.
    """
    data = unquoted(read_yaml(file))
    keys = _settings(data) if isinstance(data, dict) else {}
    if not any(key in known_keys("levanter") for key in keys):
        raise BadInputError(f"{file}: not a Levanter configuration; it must be a YAML mapping with model and trainer")
    trainer = _section(data, "trainer", file=file)
    layout = layout_of(trainer, devices=devices, slices=slices, file=file)
    model, notes, unresolved = model_of(data, file=file)
    options: dict[str, Any] = {"devices": layout.devices, "mesh": mesh_text(layout.sizes)}
    options |= {"model": model} if model else {}
    options |= _batch(trainer, layout, file=file) | _seq(data, file=file)
    options |= {"scheme": ("all-gather",)} if layout.sizes["context"] > 1 else {}
    options["remat"], more = _remat(_section(data, "model", file=file), file=file)
    precision = _precision(trainer.get("mp", "f32"), file=file)
    half = precision.get("p") == "bf16"
    options |= {"gather_dtype": ("bf16",), "reduce_dtype": ("bf16",), "moments_dtype": ("bf16" if half else "fp32",)}
    packed = _section(data, "data", file=file).get("block_cross_document_attention", True)
    return Imported(
        "levanter",
        file,
        options,
        defaults=_defaults(data),
        axis_order=layout.order,
        unknown=unknown_keys("levanter", keys),
        notes=(*notes, *layout.notes, *more, *_notes(data, packed=packed), *notes_on("levanter", keys)),
        more=(lambda job: bf16_masters(job, bytes_per_parameter=4.0, key=f"mp {trainer['mp']}")) if half else _nothing,
        unpriced=(*_unpriced(data, precision), *unresolved),
    )


def _nothing(_: Job) -> list[Difference]:
    return []


def _section(data: Mapping[str, Any], name: str, *, file: str) -> dict[str, Any]:
    section = data.get(name) or {}
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise BadInputError(f"{file}: {name} is not a mapping of keys to values")
    return section


def _settings(data: Mapping[Any, Any]) -> dict[str, Any]:
    """Every value by its key, those of the model, the trainer and its mesh with their section before a dot."""
    found = {key: value for key, value in data.items() if isinstance(key, str)}
    for name in ("model", "trainer"):
        section = data.get(name)
        if isinstance(section, dict):
            found |= {f"{name}.{key}": value for key, value in section.items() if isinstance(key, str)}
    mesh = found.get("trainer.mesh")
    if isinstance(mesh, dict):
        found |= {f"trainer.mesh.{key}": value for key, value in mesh.items() if isinstance(key, str)}
    return found


def _seq(data: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """``train_seq_len``, else the length that the model is built for."""
    model = _section(data, "model", file=file)
    for key, value in (("train_seq_len", data.get("train_seq_len")), *((name, model.get(name)) for name in _LENGTHS)):
        if value is not None:
            return {"seq": whole(value, key, file=file)}
    return {}


def _defaults(data: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """The length of the model types, where the file does not state it."""
    model = data.get("model")
    kind = model.get("type", "llama") if isinstance(model, dict) else "llama"
    length = {"llama": 2048, "qwen": 2048, "qwen3": 2048, "mistral": 8192}.get(str(kind))
    return {} if length is None else {"seq": (length, f"max_seq_len: {length}")}


_LENGTHS = ("max_seq_len", "seq_len")


def _batch(trainer: Mapping[str, Any], layout: Layout, *, file: str) -> dict[str, Any]:
    batch = trainer.get("train_batch_size", 512)
    if isinstance(batch, list):  # a schedule: the largest batch is the one that has to fit
        values = [one.get("value") if isinstance(one, dict) else one for one in batch]
        batch = max((whole(value, "train_batch_size", file=file) for value in values), default=512)
    batch = whole(batch, "train_batch_size", file=file)
    ranks, local = layout.batch_ranks, trainer.get("per_device_parallelism", -1)
    if local == -1:
        return {"global_batch": batch, "microbatches": (1,)}
    step = whole(local, "per_device_parallelism", file=file) * ranks
    if batch % step:
        raise BadInputError(
            f"{file}: train_batch_size {batch} is no multiple of per_device_parallelism x data ranks = {step}; "
            f"use {near_multiples(step, batch)}"
        )
    return {"global_batch": batch, "microbatches": (batch // step,)}


def _remat(model: Mapping[str, Any], *, file: str) -> tuple[tuple[str], list[str]]:
    """``gradient_checkpointing``: a word, or haliax's ScanCheckpointPolicy (haliax ``_src/scan.py``)."""
    policy = model.get("gradient_checkpointing", True)
    if isinstance(policy, bool | str):
        if policy not in POLICIES:
            raise BadInputError(f"{file}: gradient_checkpointing {policy!r:.40}{hint(str(policy), _WORDS)}")
        return (POLICIES[policy],), [NESTED] if policy == "nested" else []
    if not isinstance(policy, dict):
        raise BadInputError(f"{file}: gradient_checkpointing {policy!r:.60} is no policy")
    kept = policy.get("save_block_internals")
    if policy.get("disable") or kept is True:
        return ("save-all",), []
    notes = [NESTED] if policy.get("nested") else []
    if kept or policy.get("offload_block_internals"):
        tensors = kept or policy["offload_block_internals"]
        note = f"gradient_checkpointing keeps {tensors!s:.60}: priced as save-all, which keeps at least as much"
        return ("save-all",), [*notes, note]
    return ("offload-layer-in" if policy.get("save_carries") == "offload" else "full",), notes


def _precision(policy: Any, *, file: str) -> dict[str, str]:
    """``mp`` of jmp: ``p=f32,c=bf16``, or one word for all."""
    if not isinstance(policy, str):
        raise BadInputError(f"{file}: mp {policy!r:.60} is no policy; write p=f32,c=bf16")
    parts = [part.partition("=") for part in policy.replace(" ", "").split(",")]
    pairs = {name[:1]: value for name, equals, value in parts if equals} or dict.fromkeys("pco", policy)
    return {name: "bf16" if value in HALF or value.startswith("bf") else value for name, value in pairs.items()}


def _unpriced(data: Mapping[str, Any], precision: Mapping[str, str]) -> list[str]:
    found = []
    if precision.get("c", "f32") != "bf16":
        found.append(f"mp: products in {precision.get('c', 'f32')}, where lcplan prices bf16 activations of half the size")
    if data.get("lora"):
        found.append("lora: lcplan prices the training of every parameter")
    adapter = data.get("adapter")
    if isinstance(adapter, dict) and adapter.get("type", "none") not in ("none", None):
        found.append(f"adapter {adapter.get('type')}: lcplan prices the training of every parameter")
    return found


def _notes(data: Mapping[str, Any], *, packed: Any) -> list[str]:
    optimizer = data.get("optimizer")
    kind = str(optimizer.get("type", "adam")) if isinstance(optimizer, dict) else "adam"
    found = [] if kind in ("adam", "adamw") else [f"optimizer.type {kind:.40}: lcplan prices AdamW with two moments"]
    if packed:
        found.append(
            "documents of a packed sequence do not attend to each other; priced as whole sequences without --document-len"
        )
    return found
