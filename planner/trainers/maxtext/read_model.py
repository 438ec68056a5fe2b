"""The model of a MaxText configuration: by its name where the catalogue has it, with the sizes that the file sets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.spec.model import ModelSpec
from planner.trainers.common.imported import catalogue_model, number, recognised, whole
from planner.trainers.maxtext.configuration.pre_train import MODEL_NAMES
from planner.trainers.maxtext.experts import BLOCKS, read_model
from planner.trainers.maxtext.facts import DECODER_BLOCKS, LLAMA3_1_SCALING
from planner.trainers.maxtext.reading.programs import LATENT

SIZES: Mapping[str, str] = MappingProxyType(
    {
        "base_num_decoder_layers": "layers",
        "base_emb_dim": "d_model",
        "base_mlp_dim": "d_ff",
        "base_num_query_heads": "heads",
        "base_num_kv_heads": "kv_heads",
        "head_dim": "head_dim",
        "vocab_size": "vocab",
    }
)
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "logits_via_embedding": "tied_embeddings",
        "attention_bias": "qkv_bias",
        "use_qk_norm": "qk_norm",
        "normalization_layer_epsilon": "norm_eps",
    }
)


BASE: Mapping[str, Any] = MappingProxyType(
    {
        "decoder_block": "llama2",
        "base_num_decoder_layers": 16,
        "base_emb_dim": 2048,
        "base_mlp_dim": 7168,
        "base_num_query_heads": 16,
        "base_num_kv_heads": 16,
        "head_dim": 128,
        "vocab_size": 32000,
        "rope_max_timescale": 10000,
        "normalization_layer_epsilon": 1e-5,
    }
)
"""base.yml's of 0.2.5, for ``model_name: default``."""


OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b")},
        **{name: name for name in ("gpt-oss-20b", "gpt-oss-120b")},
        "gemma2-9b": "gemma-2-9b",
        "gemma2-27b": "gemma-2-27b",
        **dict.fromkeys(("deepseek3-671b", "deepseek3-671b-2dfsdp"), "deepseek-v3"),
        "llama4-17b-16e": "llama4-scout",
    }
)
"""The catalogue's models that lcplan does not export under MaxText's name, read by their names only.

A YAML file cannot change their sizes: values of a file lose to those of the model's own (``configs/pyconfig.py``), even with
``override_model_config``, which only a command line uses. The sizes of a mixture are therefore exported without a name."""


DENSE_NAMES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "mistral-7b": ("mistral-7b-v0.3", {"vocab": 32000}),
        "llama3-405b": ("llama3.1-405b", {"rope": {"theta": 500000.0}}),
        "qwen3-4b-thinking-2507": ("qwen3-4b", {"rope": {"theta": 5000000.0}}),
        **{f"qwen3-{size}-base": (f"qwen3-{size}", {}) for size in ("1.7b", "4b", "8b", "14b")},
    }
)
"""MaxText's names (``configs/models``) of dense models with another name in the catalogue, and their differences in sizes."""


def model_of(said: Mapping[str, Any], *, file: str) -> tuple[ModelSpec | None, list[str]]:
    """Return the model, or None if the file does not describe one that lcplan can be sure of; and notes on it.

    Raises
    ------
    BadInputError
        A decoder block that lcplan does not model.
    """
    other = said.get("model_name")
    if isinstance(other, str) and other in OTHER_NAMES:
        changed = sorted(key for key in {**SIZES, **FLAGS} if key in said)
        unread = [f"{', '.join(changed)} next to model_name {other}: not read; give --model for another"] if changed else []
        return catalogue_model(OTHER_NAMES[other]), unread
    if str(said.get("attention_type")) == LATENT:
        return None, [f"attention_type: {LATENT} in {file}: lcplan reads no latent attention from keys: give --model"]
    name = str(said.get("model_name") or "default")
    ours, differs = DENSE_NAMES.get(name, (name, {}))
    known = ours in MODEL_NAMES or name in DENSE_NAMES
    if name == "default" and any(key in said for key in (*SIZES, "global_parameter_scale")):
        return _plain(said, file=file)
    sizes = _sizes(said, file=file)
    if known:
        found = catalogue_model(ours).model_dump(mode="json") | dict(differs) | {"name": name}
        return ModelSpec.read(_scaled(found | sizes, said, file=file), file), []
    if name == "default" or not all(ours in sizes for ours in SIZES.values()):
        return None, [f"model_name {name} is not in the catalogue and its sizes are not all in {file}: give --model"]
    sizes = _scaled(sizes, said, file=file)
    return recognised(ModelSpec.read({"name": "imported", "source": file, **sizes}, file)), []


def base_model() -> ModelSpec:
    """MaxText's defaults where a configuration does not state a model."""
    return _plain({}, file="base.yml")[0]


def _plain(said: Mapping[str, Any], *, file: str) -> tuple[ModelSpec, list[str]]:
    """Build a model from sizes; missing ones are base.yml's."""
    sizes = _scaled(_sizes({**BASE, **said}, file=file), said, file=file)
    missing = [f"{key}={BASE[key]}" for key in SIZES if key not in said]
    note = [f"not given, so base.yml's: {', '.join(missing)}"] if missing else []
    return recognised(ModelSpec.read({"name": "imported", "source": file, **sizes}, file)), note


def _sizes(said: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """Return lcplan's fields of the given keys."""
    block, families = said.get("decoder_block"), {theirs: ours for ours, theirs in DECODER_BLOCKS.items()}
    if block is not None and (not isinstance(block, str) or block not in families):
        raise BadInputError(f"{file}: decoder_block {block!r} is not one that lcplan models{hint(str(block), families)}")
    sizes = {ours: said[theirs] for theirs, ours in {**SIZES, **FLAGS}.items() if theirs in said}
    if block is not None:
        sizes["family"] = families[block]
    activations = said.get("mlp_activations")
    if isinstance(activations, list) and activations:
        sizes |= {"activation": str(activations[0]), "mlp": "gated" if len(activations) > 1 else "plain"}
    if said.get("num_experts", 1) != 1:
        sizes["experts"] = read_model(said)
    elif block in BLOCKS.values() and said.get("model_name", "default") == "default":
        raise BadInputError(f"{file}: decoder_block {block} without num_experts; set num_experts and base_moe_mlp_dim")
    return sizes | _rope(said, file=file)


def _scaled(sizes: dict[str, Any], said: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """``global_parameter_scale``: a power of two, dealt to heads and feed-forward, then width, then layers."""
    scale = whole(said.get("global_parameter_scale", 1), "global_parameter_scale", file=file)
    if scale & (scale - 1):
        below = 1 << (scale.bit_length() - 1)
        raise BadInputError(f"{file}: global_parameter_scale={scale} is no power of two; use {below} or {2 * below}")
    turns, rest = divmod(scale.bit_length() - 1, 3)
    wider = {"heads": turns + (rest > 0), "kv_heads": turns + (rest > 0), "d_ff": turns + (rest > 0)}
    wider |= {"d_model": turns + (rest > 1), "layers": turns}
    scaled = {field: whole(sizes[field], field, file=file) * 2**times for field, times in wider.items() if times}
    if sizes.get("experts") and wider["d_ff"]:
        experts = sizes["experts"]
        width = whole(experts.get("d_ff"), "base_moe_mlp_dim", file=file)
        scaled["experts"] = experts | {"d_ff": width * 2 ** wider["d_ff"]}
    return sizes | scaled


def _rope(said: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    if "rope_max_timescale" not in said:
        return {}
    rope: dict[str, Any] = {"theta": said["rope_max_timescale"]}
    kind = said.get("rope_type", "default")
    if kind == "llama3.1":
        factor, low, high, original = LLAMA3_1_SCALING
        rope |= {"scaling": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high}
        rope["original_max_position"] = original
    elif kind == "yarn":
        rope |= {"scaling": "yarn", "factor": said.get("rope_factor", 40)}
        rope |= {"original_max_position": said.get("original_max_position_embeddings")}
    elif number(said.get("rope_linear_scaling_factor", 1.0), "rope_linear_scaling_factor", file=file) != 1.0:
        rope |= {"scaling": "linear", "factor": said["rope_linear_scaling_factor"]}
    return {"rope": rope}
