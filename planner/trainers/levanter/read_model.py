"""The model of a Levanter configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lcplan import catalog
from lcplan.catalog.hub_names import hub_model
from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from planner.trainers.common.imported import recognised

FAMILIES: Mapping[str, str] = MappingProxyType({"llama": "llama", "mistral": "mistral", "qwen": "qwen2", "qwen3": "qwen3"})
"""lcplan's family of each of Levanter's model types whose sizes are read."""
LLAMA: Mapping[str, Any] = MappingProxyType(
    {"hidden_dim": 4096, "intermediate_dim": 11008, "num_layers": 32, "num_heads": 32, "num_kv_heads": 32}
)
MISTRAL: Mapping[str, Any] = MappingProxyType({**LLAMA, "intermediate_dim": 14336, "num_kv_heads": 8})
"""Defaults of the model types (levanter ``models/llama.py`` and ``mistral.py`` of 0.2.227)."""
OTHER_SIZES = ("hybrid_norm", "use_qk_norm", "input_embedding_norm")


def model_of(data: Mapping[str, Any], *, file: str) -> tuple[ModelSpec | None, list[str], list[str]]:
    """Return the model, None if the file does not describe one that lcplan can be sure of; notes on it; unpriced parts.

    Raises
    ------
    BadInputError
        ``model`` is not a mapping.
    """
    settings = data.get("model") or {}
    if not isinstance(settings, dict):
        raise BadInputError(f"{file}: model is not a mapping of keys to values")
    source = _hub_name(data, settings)
    if source is not None:
        found = hub_model(source)
        return found, [] if found else [f"{source} is not in the catalogue: give --model"], []
    kind = str(settings.get("type", "llama"))
    unpriced = [f"model.{name}: lcplan does not model it" for name in OTHER_SIZES if settings.get(name) and kind != "qwen3"]
    if kind not in FAMILIES:
        return None, [f"model type {kind:.40}: its sizes are not read: give --model"], []
    sizes = {
        **(MISTRAL if kind == "mistral" else LLAMA),
        **{key: value for key, value in settings.items() if value is not None},
    }
    vocab, notes = _vocabulary(data, sizes)
    if vocab is None:
        return None, ["the vocabulary is that of the tokenizer, which the catalogue does not know: give --model"], unpriced
    return recognised(ModelSpec.read(_fields(sizes, kind, vocab=vocab, file=file), file)), notes, unpriced


def _hub_name(data: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    """The checkpoint whose sizes replace those of the file (``use_hf_model_config``)."""
    if not data.get("use_hf_model_config"):
        return None
    start = data.get("initialize_from_hf")
    return str(start if isinstance(start, str) else settings.get("reference_checkpoint", "NousResearch/Llama-2-7b-hf"))


def _fields(sizes: Mapping[str, Any], kind: str, *, vocab: int, file: str) -> dict[str, Any]:
    width, heads = sizes["hidden_dim"], sizes["num_heads"]
    head = sizes.get("head_dim") or (width // heads if isinstance(width, int) and isinstance(heads, int) and heads else 0)
    bias = bool(sizes.get("use_bias"))
    activation = str(sizes.get("activation_function", "silu"))
    return {
        "name": "imported",
        "source": file,
        "family": FAMILIES[kind],
        "layers": sizes["num_layers"],
        "d_model": width,
        "d_ff": sizes["intermediate_dim"],
        "heads": heads,
        "kv_heads": sizes["num_kv_heads"],
        "head_dim": head,
        "vocab": vocab,
        "tied_embeddings": bool(sizes.get("tie_word_embeddings")),
        "qkv_bias": bias or kind == "qwen",
        "out_bias": bias,
        "mlp_bias": bias,
        "qk_norm": kind == "qwen3" or bool(sizes.get("use_qk_norm")),
        "norm_eps": sizes.get("layer_norm_epsilon", 1e-5),
        "activation": {"gelu_new": "gelu_tanh"}.get(activation, activation),
        "rope": _rope(sizes.get("rope")),
    }


def _rope(section: Any) -> dict[str, Any]:
    if not isinstance(section, dict):
        return {"theta": 10000.0}
    rope: dict[str, Any] = {"theta": section.get("theta", 500000.0 if section.get("type") == "llama3" else 10000.0)}
    if section.get("type") == "llama3":
        rope |= {"scaling": "llama3", "factor": section.get("factor", 8.0)}
        rope |= {
            "low_freq_factor": section.get("low_freq_factor", 1.0),
            "high_freq_factor": section.get("high_freq_factor", 4.0),
        }
        rope["original_max_position"] = section.get("original_max_position_embeddings", 8192)
    return rope


def _vocabulary(data: Mapping[str, Any], sizes: Mapping[str, Any]) -> tuple[int | None, list[str]]:
    """The vocabulary: of the tokenizer's model in the catalogue, else of the one catalogue model with these sizes."""
    section = data.get("data")
    tokenizer = section.get("tokenizer") if isinstance(section, dict) else None
    known = hub_model(str(tokenizer)) if tokenizer else None
    if known is not None:
        return known.vocab, []
    stated = section.get("vocab_size") if isinstance(section, dict) else None
    if isinstance(stated, int):
        return stated, []
    same = [model for model in map(catalog.model, catalog.model_names()) if _sizes_of(model) == _own(sizes)]
    if len({model.vocab for model in same}) != 1:
        return None, []
    return same[0].vocab, [f"the vocabulary is the tokenizer's; priced with {same[0].vocab} entries, as {same[0].name} has"]


def _sizes_of(model: ModelSpec) -> tuple[Any, ...]:
    return model.d_model, model.d_ff, model.layers, model.heads, model.kv_heads


def _own(sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sizes[name] for name in ("hidden_dim", "intermediate_dim", "num_layers", "num_heads", "num_kv_heads"))
