"""``--from-trl FILE``: a YAML of ``trl sft --config``, or the script with ``accelerate launch`` and its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers.common.imported import Imported
from planner.trainers.common.known_keys import notes_on, unknown_keys
from planner.trainers.huggingface.run import EVERY, FURTHER, HubRun, count, deepspeed_file, fsdp_launch, imported_run
from planner.trainers.huggingface.settings import Settings, settings_of
from planner.trainers.trl.facts import FRONT_END

LENGTH = 1024
"""Default of ``max_length`` (trainer/sft_config.py)."""
_FSDP = {"fsdp_activation_checkpointing": False, "fsdp_offload_params": False}
LAUNCHES: Mapping[str, Mapping[str, Any]] = {
    "single_gpu": {"distributed_type": "NO"},
    "multi_gpu": {"distributed_type": "MULTI_GPU"},
    "fsdp1": {
        "distributed_type": "FSDP",
        "fsdp_config": {**_FSDP, "fsdp_version": 1, "fsdp_sharding_strategy": "FULL_SHARD"},
    },
    "fsdp2": {"distributed_type": "FSDP", "fsdp_config": {**_FSDP, "fsdp_version": 2, "fsdp_reshard_after_forward": True}},
    **{f"zero{stage}": {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": stage}} for stage in (1, 2, 3)},
}
"""The launcher's files that TRL brings (trl/accelerate_configs), by their names in ``accelerate_config``."""
FURTHER_MODELS = ("num_generations", "max_completion_length", "reward_funcs", "reward_model_path", "beta", "max_prompt_length")
"""Settings of GRPO, DPO and the others, whose steps have further models or passes."""


def read(file: str, devices: int | None = None) -> Imported:
    """Read the settings.

    Raises
    ------
    BadInputError
        No setting of TRL, or a value that it has not.
    """
    given = settings_of(file, "trl", devices=devices)
    return imported_run(_run(given.values, given, file=file))


def _run(values: Mapping[str, Any], given: Settings, *, file: str) -> HubRun:
    launch = _launch(values, given, file=file)
    model = values.get("model_name_or_path")
    return HubRun(
        file=file,
        title=FRONT_END.title,
        model=str(model) if model else None,
        seq=count(values, "max_length", default=LENGTH, file=file),
        micro=count(values, "per_device_train_batch_size", default=8, file=file),
        steps=count(values, "gradient_accumulation_steps", default=1, file=file),
        devices=given.devices or (launch.get("num_processes") if isinstance(launch.get("num_processes"), int) else None),
        checkpointing=_checkpointing(values, launch),
        deepspeed=deepspeed_file(values["deepspeed"], file=file) if values.get("deepspeed") else None,
        launch=launch,
        fused_loss=bool(values.get("use_liger_kernel")) or values.get("loss_type") in ("chunked_nll", "chunked"),
        rounded=str(values.get("dtype") or values.get("torch_dtype") or "float32") in ("bfloat16", "bf16"),
        notes=(*given.notes, *_notes(values), *notes_on("trl", values)),
        unpriced=tuple(_unpriced(values)),
        unknown=unknown_keys("trl", values),
    )


def _launch(values: Mapping[str, Any], given: Settings, *, file: str) -> dict[str, Any]:
    if given.accelerate:
        return dict(given.accelerate)
    named = values.get("accelerate_config")
    if named is None:
        return fsdp_launch(values.get("fsdp_config"), values.get("fsdp"), file=file)
    if str(named) in LAUNCHES:
        return dict(LAUNCHES[str(named)])
    if str(named).endswith((".yaml", ".yml")):
        from lcplan.formats.textfile import read_yaml

        data = read_yaml(str(named))
        if isinstance(data, dict):
            return data
    raise BadInputError(f"{file}: accelerate_config {named!s:.60}{hint(str(named), LAUNCHES)}")


def _checkpointing(values: Mapping[str, Any], launch: Mapping[str, Any]) -> str | None:
    """``gradient_checkpointing``, which TRL turns on; the launcher's own checkpointing may replace it."""
    section = launch.get("fsdp_config")
    inside = isinstance(section, dict) and section.get("fsdp_activation_checkpointing")
    if not values.get("gradient_checkpointing", True) and not inside:
        return "save-all"
    return "offload-layer-in" if values.get("activation_offloading") else None if inside else "full"


def _notes(values: Mapping[str, Any]) -> list[str]:
    found = [] if values.get("max_length") else [f"not given, so the default: max_length={LENGTH}"]
    if not values.get("packing"):
        found.append("packing is off: every sequence is priced with max_length tokens")
    if values.get("bf16") is False:
        found.append("bf16 is off: lcplan prices bf16 with fp32 masters")
    return found


def _unpriced(values: Mapping[str, Any]) -> list[str]:
    found = []
    if values.get("use_peft"):
        found.append(f"use_peft: {EVERY}")
    if values.get("load_in_4bit") or values.get("load_in_8bit"):
        found.append("load_in_4bit or load_in_8bit: weights are priced in bf16")
    stated = [key for key in FURTHER_MODELS if values.get(key) is not None]
    if stated:
        found.append(f"{', '.join(stated)}: {FURTHER}")
    return found
