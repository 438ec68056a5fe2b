"""``--from-axolotl FILE``: the YAML of ``axolotl train``, or the script with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers.axolotl.facts import FRONT_END
from planner.trainers.common.imported import Imported
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.huggingface.run import EVERY, FURTHER, HubRun, count, deepspeed_file, fsdp_launch, imported_run
from planner.trainers.huggingface.settings import Settings, settings_of

LENGTH = 512
"""Default of ``sequence_len`` (utils/schemas/config.py)."""
RINGS = {"batch_ring": "ring", "batch_zigzag": "ring-zigzag", "batch_stripe": "ring-zigzag", "varlen_llama3": "all-gather"}
"""``ring_attn_func``: the functions of ring-flash-attn; ``varlen_llama3`` gathers keys and values."""
OFFLOADED = {"offload": "offload-layer-in", "offload_disk": "offload-layer-in"}


def read(file: str, devices: int | None = None) -> Imported:
    """Read the settings.

    Raises
    ------
    BadInputError
        No setting of Axolotl, or a value that it has not.
    """
    given = settings_of(file, "axolotl", devices=devices)
    return imported_run(_run(given.values, given, file=file))


def _run(values: Mapping[str, Any], given: Settings, *, file: str) -> HubRun:
    context = count(values, "context_parallel_size", default=1, file=file)
    context = max(context, count(values, "sequence_parallel_degree", default=1, file=file))
    model = values.get("base_model")
    return HubRun(
        file=file,
        title=FRONT_END.title,
        model=str(model) if model else None,
        seq=count(values, "sequence_len", default=LENGTH, file=file),
        micro=count(values, "micro_batch_size", default=1, file=file),
        steps=count(values, "gradient_accumulation_steps", default=1, file=file),
        devices=given.devices,
        checkpointing=_checkpointing(values),
        rounded=values.get("bf16") == "full" or values.get("bfloat16") is True,
        deepspeed=deepspeed_file(values["deepspeed"], file=file) if values.get("deepspeed") else None,
        launch=_launch(values, given, file=file),
        context=context,
        tensor=count(values, "tensor_parallel_size", default=1, file=file),
        scheme=_scheme(values, file=file) if context > 1 else None,
        fused_loss=_fused(values),
        notes=(*given.notes, *_notes(values), *notes_on("axolotl", values)),
        unpriced=tuple(_unpriced(values)),
        unknown=unknown_keys("axolotl", values),
    )


def _launch(values: Mapping[str, Any], given: Settings, *, file: str) -> dict[str, Any]:
    if given.accelerate:
        return dict(given.accelerate)
    config = values.get("fsdp_config")
    if isinstance(config, dict) and values.get("fsdp_version"):
        config = {"fsdp_version": values["fsdp_version"], **config}
    launch = fsdp_launch(config, values.get("fsdp"), file=file)
    names = {"dp_shard_size": "dp_shard_size", "dp_replicate_size": "dp_replicate_size"}
    sizes = {theirs: count(values, ours, default=1, file=file) for ours, theirs in names.items() if values.get(ours)}
    if launch and sizes and launch["fsdp_config"].get("fsdp_version") == 2:
        launch["parallelism_config"] = sizes
    return launch


def _checkpointing(values: Mapping[str, Any]) -> str:
    """``gradient_checkpointing`` with its place; ``activation_offloading`` is the later name of the place."""
    policy, section = values.get("gradient_checkpointing"), values.get("fsdp_config")
    inside = isinstance(section, dict) and (
        section.get("activation_checkpointing") or section.get("fsdp_activation_checkpointing")
    )
    if not policy and not inside:
        return "save-all"
    return "offload-layer-in" if policy in OFFLOADED or values.get("activation_offloading") else "full"


def _scheme(values: Mapping[str, Any], *, file: str) -> str:
    kind = values.get("ring_attn_func") or ("varlen_llama3" if values.get("sample_packing") else "batch_ring")
    if kind not in RINGS:
        raise BadInputError(f"{file}: ring_attn_func {kind!r:.40}{hint(str(kind), RINGS)}")
    return RINGS[kind]


def _fused(values: Mapping[str, Any]) -> bool:
    return any(values.get(key) for key in ("liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy"))


def _notes(values: Mapping[str, Any]) -> list[str]:
    found = []
    if not values.get("sequence_len"):
        found.append(f"not given, so the default: sequence_len={LENGTH}")
    if not values.get("bf16") and not values.get("bfloat16"):
        found.append("bf16 is not set: lcplan prices bf16 with fp32 masters")
    if not values.get("sample_packing"):
        found.append("sample_packing is off: every sequence is priced with sequence_len tokens")
    optimizer = str(values.get("optimizer", "adamw_torch_fused"))
    if not optimizer.startswith("adamw_torch") and optimizer != "adamw_apex_fused":
        found.append(f"optimizer {optimizer:.40}: lcplan prices AdamW with two fp32 moments")
    return found


def _unpriced(values: Mapping[str, Any]) -> list[str]:
    found = []
    if values.get("adapter"):
        found.append(f"adapter {values['adapter']}: {EVERY}")
    if values.get("rl"):
        found.append(f"rl {values['rl']}: {FURTHER}")
    if values.get("load_in_4bit") or values.get("load_in_8bit"):
        found.append("load_in_4bit or load_in_8bit: weights are priced in bf16")
    if values.get("unfrozen_parameters"):
        found.append(f"unfrozen_parameters: {EVERY}")
    return found
