"""``--from-llamafactory FILE``: the YAML of ``llamafactory-cli train``, or the script with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.trainers.common.imported import Imported
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.huggingface.run import EVERY, FURTHER, HubRun, count, deepspeed_file, fsdp_launch, imported_run
from planner.trainers.huggingface.settings import Settings, settings_of
from planner.trainers.llamafactory.facts import FRONT_END

CUTOFF = 2048
"""Default of ``cutoff_len`` (hparams/data_args.py)."""
PRICED_STAGES = ("pt", "sft")
RINGS = {"ulysses": "ulysses", "zigzag-ring": "ring-zigzag"}
"""``sequence_parallel_mode`` of 360-LLaMA-Factory."""


def read(file: str, devices: int | None = None) -> Imported:
    """Read the settings.

    Raises
    ------
    BadInputError
        No setting of LLaMA-Factory, or a value that it has not.
    """
    given = settings_of(file, "llamafactory", devices=devices)
    return imported_run(_run(given.values, given, file=file))


def _run(values: Mapping[str, Any], given: Settings, *, file: str) -> HubRun:
    sharded = values.get("deepspeed")
    launch = dict(given.accelerate or {}) or fsdp_launch(values.get("fsdp_config"), values.get("fsdp"), file=file)
    context = count(values, "sequence_parallel_size", default=1, file=file)
    return HubRun(
        file=file,
        title=FRONT_END.title,
        model=str(values["model_name_or_path"]) if values.get("model_name_or_path") else None,
        seq=count(values, "cutoff_len", default=CUTOFF, file=file),
        micro=count(values, "per_device_train_batch_size", default=8, file=file),
        steps=count(values, "gradient_accumulation_steps", default=1, file=file),
        devices=given.devices,
        rounded=values.get("pure_bf16") is True,
        checkpointing="save-all" if values.get("disable_gradient_checkpointing") else "full",
        deepspeed=deepspeed_file(sharded, file=file) if sharded else None,
        launch=launch,
        context=context,
        scheme=RINGS.get(str(values.get("sequence_parallel_mode", "zigzag-ring")), "ring-zigzag") if context > 1 else None,
        fused_loss=bool(values.get("enable_liger_kernel") or values.get("use_liger_kernel")),
        notes=(*given.notes, *_notes(values), *notes_on("llamafactory", values)),
        unpriced=tuple(_unpriced(values)),
        unknown=unknown_keys("llamafactory", values),
    )


def _notes(values: Mapping[str, Any]) -> list[str]:
    found = []
    if not values.get("cutoff_len"):
        found.append(f"not given, so the default: cutoff_len={CUTOFF}")
    if not values.get("bf16") and not values.get("pure_bf16"):
        found.append("bf16 is not set: lcplan prices bf16 with fp32 masters")
    if not values.get("packing") and values.get("stage", "sft") == "sft":
        found.append("packing is off: every sequence is priced with cutoff_len tokens, which a batch of short examples has not")
    return found


def _unpriced(values: Mapping[str, Any]) -> list[str]:
    kind, stage = str(values.get("finetuning_type", "lora")), str(values.get("stage", "sft"))
    found = []
    if kind != "full":
        found.append(f"finetuning_type {kind}: {EVERY}")
    if stage not in PRICED_STAGES:
        found.append(f"stage {stage}: {FURTHER}")
    if values.get("quantization_bit"):
        found.append(f"quantization_bit {values['quantization_bit']}: weights are priced in bf16")
    if values.get("use_mca") or values.get("use_megatron_bridge") or values.get("use_hyper_parallel"):
        found.append("a backend other than Transformers: give Megatron's arguments with --from-megatron")
    if values.get("use_unsloth") or values.get("use_kt"):
        found.append("use_unsloth or use_kt: their kernels and offloading are not priced")
    return found
