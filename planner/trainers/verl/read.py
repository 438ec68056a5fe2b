"""``--from-verl FILE``: a script of verl with its overrides, or its YAML. The step of the trained model is priced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import parse_yaml, read_text, read_yaml
from planner.shell.trainer_words import launched, trainer_words, unread
from planner.trainers.common.imported import Imported
from planner.trainers.huggingface.run import EVERY, HubRun, count, imported_run
from planner.trainers.verl.facts import FRONT_END

_A, _M = "actor_rollout_ref.actor.", "actor_rollout_ref.model."
SECTIONS = ("actor_rollout_ref.", "data.", "model.", "trainer.", "algorithm.", "optim.", "ulysses_sequence_parallel_size")
BESIDES = (
    "the update of the actor is priced; the rollout engine, its share of the memory, and the models for rewards, values and "
    "reference log-probabilities are not"
)
READ = frozenset(
    {
        *(f"{_A}{name}" for name in ("strategy", "ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu", "use_dynamic_bsz")),
        *(f"{_A}{name}" for name in ("ppo_max_token_len_per_gpu", "ulysses_sequence_parallel_size", "fsdp_config.fsdp_size")),
        *(f"{_A}fsdp_config.{name}" for name in ("param_offload", "optimizer_offload", "ulysses_sequence_parallel_size")),
        *(f"{_M}{name}" for name in ("path", "enable_gradient_checkpointing", "enable_activation_offload", "lora_rank")),
        *(f"{_M}{name}" for name in ("use_fused_kernels", "use_liger", "use_remove_padding")),
        *(f"data.{name}" for name in ("max_prompt_length", "max_response_length", "max_length", "train_batch_size")),
        *(f"model.{name}" for name in ("partial_pretrain", "path", "enable_gradient_checkpointing", "lora_rank", "strategy")),
        *("data.micro_batch_size_per_gpu", "model.use_liger", "model.fsdp_config.fsdp_size", "actor_rollout_ref.rollout.n"),
        *("trainer.n_gpus_per_node", "trainer.nnodes", "ulysses_sequence_parallel_size", "use_remove_padding"),
    }
)
UNREAD = (f"{_A}fsdp_config.", f"{_A}megatron.", _M, "model.fsdp_config.")
"""Sections whose other keys may change memory."""


def read(file: str, devices: int | None = None) -> Imported:
    """Read the settings.

    Raises
    ------
    BadInputError
        No setting of verl, a needed word that only a shell knows, or an actor that is not trained with FSDP.
    """
    values, notes, found = _values(file, devices)
    devices = found or _stated(values)
    reinforced = any(name.startswith("actor_rollout_ref.") for name in values)
    run = _reinforced(values, file=file, devices=devices) if reinforced else _supervised(values, file=file, devices=devices)
    strange = [name for name in values if name.startswith(UNREAD) and name not in READ]
    notes += [f"{', '.join(strange)}: not read"] if strange else []
    return imported_run(HubRun(**{**run, "notes": (*run["notes"], *notes)}))


def _values(file: str, devices: int | None) -> tuple[dict[str, Any], list[str], int | None]:
    """The settings by their dotted names, notes, and the devices that are asked for or that the launcher starts."""
    if Path(file).suffix in (".yaml", ".yml"):
        return _flat(unquoted(read_yaml(file)), file), [], devices
    script = trainer_words(read_text(file), file, knows=lambda word: "=" in word and word.lstrip("+").startswith(SECTIONS))
    found: dict[str, Any] = {}
    needed = []
    for word in script.words:
        key, equals, value = word.text.lstrip("+").partition("=")
        if not equals or not key.startswith(SECTIONS):
            continue
        if not word.unknown:
            found[key] = unquoted(parse_yaml(value, f"{file}: {key}")) if value else None
        elif key in READ:
            needed.append(f"{file}: {unread(word.text, word)}")
    if needed:
        raise BadInputError(needed)
    if not found:
        raise BadInputError(f"{file}: no override of verl, such as data.train_batch_size=256")
    return found, [*script.notes, *launched(script.launch, devices)], devices or script.launch.devices


def _flat(data: Any, file: str, above: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        raise BadInputError(f"{file}: not a configuration of verl; it must be a YAML mapping")
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, file, f"{above}{key}.") if isinstance(value, dict) and value else {f"{above}{key}": value}
    if not above and not any(name.startswith(SECTIONS) for name in found):
        raise BadInputError(f"{file}: not a configuration of verl")
    return found


def _stated(values: Mapping[str, Any]) -> int | None:
    local, nodes = values.get("trainer.n_gpus_per_node"), values.get("trainer.nnodes", 1)
    return local * nodes if type(local) is int and type(nodes) is int and local > 0 and nodes > 0 else None


def _common(values: Mapping[str, Any], prefix: str, *, file: str) -> dict[str, Any]:
    """Settings of the model section, which both kinds have."""
    offloads = values.get(f"{prefix}enable_activation_offload")
    checkpoints = values.get(f"{prefix}enable_gradient_checkpointing", True)
    rank = values.get(f"{prefix}lora_rank") or values.get(f"{prefix}lora.rank") or 0
    adapter = rank or values.get(f"{prefix}lora_adapter_path")
    return {
        "file": file,
        "title": FRONT_END.title,
        "checkpointing": ("offload-layer-in" if offloads else "full") if checkpoints else "save-all",
        "fused_loss": bool(values.get(f"{prefix}use_fused_kernels")),
        "unpriced": (f"lora_rank {rank or 'of its adapter'}: {EVERY}",) if adapter else (),
    }


def _launch(values: Mapping[str, Any], prefix: str, ranks: int, *, file: str) -> dict[str, Any]:
    """FSDP over all ranks, or over groups of ``fsdp_size``."""
    size = values.get(f"{prefix}fsdp_config.fsdp_size", -1)
    launch: dict[str, Any] = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}
    if size in (-1, None) or not isinstance(size, int) or size < 1 or size >= ranks:
        return launch
    if ranks % size:
        raise BadInputError(f"{file}: fsdp_size={size} does not divide {ranks} ranks")
    return launch | {"parallelism_config": {"dp_replicate_size": ranks // size, "dp_shard_size": size}}


def _batched(batch: int, micro: int, ranks: int, *, file: str) -> dict[str, int]:
    """Sequences of a rank at once, and the steps that make up a batch."""
    local, rest = divmod(batch, ranks)
    if rest or not local:
        raise BadInputError(f"{file}: a batch of {batch} sequences is no multiple of {ranks} data-parallel ranks")
    micro = min(micro, local)
    micro = next(size for size in range(micro, 0, -1) if local % size == 0)
    return {"micro": micro, "steps": local // micro}


def _ranks(devices: int | None, context: int, *, file: str) -> int:
    if devices is None:
        raise BadInputError(f"{file}: trainer.n_gpus_per_node is not in it; give --devices or --hw")
    if devices % context:
        raise BadInputError(f"{file}: ulysses_sequence_parallel_size={context} does not divide {devices} devices")
    return devices // context


def _reinforced(values: Mapping[str, Any], *, file: str, devices: int | None) -> dict[str, Any]:
    inside = any(name.startswith(f"{_A}megatron.") for name in values)
    kind = str(values.get(f"{_A}strategy", "megatron" if inside else "fsdp"))
    if kind not in ("fsdp", "fsdp2"):
        raise BadInputError(
            f"{file}: {_A}strategy {kind}: lcplan reads actors that are trained with FSDP; give Megatron's arguments"
        )
    inner = count(values, f"{_A}fsdp_config.ulysses_sequence_parallel_size", default=1, file=file)
    context = count(values, f"{_A}ulysses_sequence_parallel_size", default=inner, file=file)
    ranks = _ranks(devices, context, file=file)
    prompt = count(values, "data.max_prompt_length", default=512, file=file)
    seq = prompt + count(values, "data.max_response_length", default=512, file=file)
    mini = count(values, f"{_A}ppo_mini_batch_size", default=256, file=file)
    batch = mini * count(values, "actor_rollout_ref.rollout.n", default=1, file=file)
    micro = count(values, f"{_A}ppo_micro_batch_size_per_gpu", default=1, file=file)
    if values.get(f"{_A}use_dynamic_bsz"):
        tokens = count(values, f"{_A}ppo_max_token_len_per_gpu", default=16384, file=file) * context
        micro = max(1, tokens // seq)
    common = _common(values, _M, file=file)
    moved = [name for name in ("param_offload", "optimizer_offload") if values.get(f"{_A}fsdp_config.{name}")]
    notes = [f"{' and '.join(moved)}: on the device during the update, which is priced"] if moved else []
    return common | {
        "model": values.get(f"{_M}path"),
        "seq": seq,
        **_batched(batch, micro, ranks, file=file),
        "devices": devices,
        "launch": _launch(values, _A, ranks, file=file),
        "context": context,
        "scheme": "ulysses" if context > 1 else None,
        "notes": (f"sequences are priced at max_prompt_length + max_response_length = {seq} tokens", *notes),
        "unpriced": (*common["unpriced"], BESIDES),
    }


def _supervised(values: Mapping[str, Any], *, file: str, devices: int | None) -> dict[str, Any]:
    context = count(values, "ulysses_sequence_parallel_size", default=1, file=file)
    ranks = _ranks(devices, context, file=file)
    batch = count(values, "data.train_batch_size", default=256, file=file)
    micro = count(values, "data.micro_batch_size_per_gpu", default=4, file=file)
    return _common(values, "model.", file=file) | {
        "model": values.get("model.partial_pretrain") or values.get("model.path"),
        "seq": count(values, "data.max_length", default=1024, file=file),
        **_batched(batch, micro, ranks, file=file),
        "devices": devices,
        "launch": _launch(values, "model.", ranks, file=file),
        "context": context,
        "scheme": "ulysses" if context > 1 else None,
        "notes": ("sequences are priced at data.max_length tokens",),
    }
