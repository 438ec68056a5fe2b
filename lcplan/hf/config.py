"""A ``config.json`` as a ModelSpec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_json
from lcplan.hf.experts import read_experts, read_latent
from lcplan.hf.families import FAMILIES, Family
from lcplan.hf.keys import Keys
from lcplan.hf.refusals import refusals, unknown_keys
from lcplan.hf.rope import read_rope
from lcplan.hf.windows import read_window
from lcplan.spec.model import ModelSpec, Rope

LARGEST_SIZE = 10**8
LARGEST_HEADS = 65536
LARGEST_LAYERS = 4096
_Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]
_ACTIVATIONS: dict[str, _Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def read_config(path: str | Path) -> ModelSpec:
    """The model of a ``config.json``, or of a folder with one.

    Raises
    ------
    BadInputError
        No such file, not a config of a language model, an architecture that lcplan does not model, or wrong values: all
        problems of the file, each with its key.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
        if not file.exists():
            raise BadInputError(f"{path}: the folder has no config.json")
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return from_config(read_json(file), name or "config", where=str(path))


def from_config(config: Any, name: str, *, where: str = "config.json") -> ModelSpec:
    """The model of a config's plain values, called ``name``; ``where`` begins each message.

    Raises
    ------
    BadInputError
        As ``read_config``.
    """
    if not isinstance(config, dict):
        raise BadInputError(f"{where}: not a Hugging Face config: a mapping was expected, this is a {type(config).__name__}")
    config, text_note = _text_part(config)
    model_type, family = _family(config, where)
    keys = Keys(config)
    keys.used |= {"model_type", "architectures", "auto_map", *family.ignored}
    spec = _values(keys, family)
    keys.problems.extend(refusals(config, frozenset(keys.used)))
    if keys.problems:
        raise BadInputError([f"{where}: {problem}" for problem in dict.fromkeys(keys.problems)])
    return ModelSpec.read(
        {
            **spec,
            "name": name[:120],
            "source": f"Hugging Face config of model_type {model_type!r}",
            "notes": (*text_note, *_notes(keys)),
        },
        where,
    )


def _text_part(config: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Llama 4 nests its decoder in ``text_config``; where no other part is stated, that is the model."""
    inner = config.get("text_config")
    if config.get("model_type") != "llama4" or not isinstance(inner, dict) or config.get("vision_config") is not None:
        return config, ()
    return {**inner, "model_type": "llama4_text"}, ("only text_config is counted: the class's vision part is not",)


def _family(config: Mapping[str, Any], where: str) -> tuple[str, Family]:
    """The config's family by model_type and architectures.

    Raises
    ------
    BadInputError
        Naming the key and value that lcplan does not model.
    """
    given = config.get("architectures")
    classes = given if isinstance(given, list) else [given] if given is not None else []
    model_type = config.get("model_type")
    if model_type is None:
        known = {family.architectures[0]: key for key, family in FAMILIES.items()}
        model_type = next((known[cls] for cls in classes if isinstance(cls, str) and cls in known), None)
    if model_type is None:
        named = f", and architectures {classes!r} is not modelled" if classes else ""
        raise BadInputError(f"{where}: not a Hugging Face config of a language model: missing key 'model_type'{named}")
    family = FAMILIES.get(model_type.lower()) if isinstance(model_type, str) else None
    if family is None:
        text = f"{model_type!r}"[:60]
        raise BadInputError(
            f"{where}: model_type {text} is not modelled; lcplan models decoders of the types {', '.join(FAMILIES)}"
        )
    allowed = {cls.lower() for cls in family.architectures}
    wrong = [cls for cls in classes if not isinstance(cls, str) or cls.lower() not in allowed]
    if wrong:
        raise BadInputError(
            f"{where}: architectures {wrong[0]!r:.60} is not modelled for model_type {model_type!r}; "
            f"expected {family.architectures[0]!r}"
        )
    return model_type, family


def _values(keys: Keys, family: Family) -> dict[str, Any]:
    """The fields of ModelSpec except its name, source and notes."""
    d_model = keys.whole("hidden_size", largest=LARGEST_SIZE)
    heads = keys.whole("num_attention_heads", largest=LARGEST_HEADS)
    layers = keys.whole("num_hidden_layers", largest=LARGEST_LAYERS)
    bias = {field: _bias(keys, family, rule=getattr(family, field)) for field in ("qkv_bias", "out_bias", "mlp_bias")}
    experts = read_experts(keys, family.experts, layers=layers) if family.experts else None
    latent = read_latent(keys) if family.experts in ("deepseek_v2", "deepseek_v3") else None
    return {
        "family": family.spec_family,
        "experts": experts,
        "latent": latent,
        "attention_sinks": family.experts == "gpt_oss",
        "post_norms": family.post_norms,
        "unplanned": family.counted_only,
        "unbuilt": family.priced_only,
        "layers": layers,
        "d_model": d_model,
        "d_ff": keys.whole(_dense_width(keys), largest=LARGEST_SIZE),
        "heads": heads,
        "kv_heads": heads if latent else _kv_heads(keys, family, heads=heads),
        "head_dim": (latent.key_dim + latent.value_dim) // 2
        if latent
        else _head_dim(keys, family, d_model=d_model, heads=heads),
        "vocab": keys.whole("vocab_size", largest=LARGEST_SIZE),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=family.tied),
        **bias,
        "qk_norm": family.qk_norm,
        "activation": _activation(keys, family),
        "norm_eps": keys.number("rms_norm_eps", default=family.eps),
        "rope": _counted_rope(keys, family) if family.unread_rope or latent else read_rope(keys, family),
        **(read_window(keys, family, layers=layers) if "layer_types" not in family.ignored else {}),
        "max_position": keys.maybe_whole("max_position_embeddings", largest=2**40),
    }


def _dense_width(keys: Keys) -> str:
    """The key with the width of layers without experts: Llama 4 has one of its own."""
    return "intermediate_size_mlp" if keys.has("intermediate_size_mlp") else "intermediate_size"


def _counted_rope(keys: Keys, family: Family) -> Rope:
    """Leave the scaling unread for a model that no step computes: neither memory nor time depend on it."""
    return Rope(theta=keys.number("rope_theta", default=family.theta))


def _bias(keys: Keys, family: Family, *, rule: bool | str) -> bool:
    return rule if isinstance(rule, bool) else keys.flag(rule, default=family.bias_default)


def _kv_heads(keys: Keys, family: Family, *, heads: int) -> int:
    """Null means as many as query heads; an absent key means the class's default."""
    absent = "num_key_value_heads" not in keys.config
    default = family.kv_heads if absent and family.kv_heads else heads
    kv_heads = keys.whole("num_key_value_heads", largest=LARGEST_HEADS, default=default)
    if heads % kv_heads and not keys.problems:
        keys.problems.append(f"num_key_value_heads: {kv_heads} does not divide num_attention_heads={heads}")
    if absent and default != heads:
        keys.notes.append(f"num_key_value_heads is absent: the class's default {default}")
    return kv_heads


def _head_dim(keys: Keys, family: Family, *, d_model: int, heads: int) -> int:
    """Head dim: null or absent means hidden_size over heads, except for classes with a default of their own."""
    if family.head_dim and not keys.has("head_dim"):
        if "head_dim" in keys.config:
            keys.problems.append("head_dim: null is not a whole number; this model_type needs one")
        return family.head_dim
    if not keys.has("head_dim") and d_model % heads and not keys.problems:
        keys.problems.append(
            f"hidden_size: {d_model} is not a multiple of num_attention_heads={heads}, and there is no head_dim"
        )
    head_dim = keys.whole("head_dim", largest=LARGEST_HEADS, default=max(1, d_model // heads))
    if head_dim % 2 and not keys.problems:
        keys.problems.append(f"head_dim: {head_dim} is odd; RoPE rotates pairs")
    return head_dim


def _activation(keys: Keys, family: Family) -> _Activation:
    given = {key: keys.get(key) for key in family.activation_keys}
    for key, name in given.items():
        if name is None:
            continue
        if isinstance(name, str) and name in _ACTIVATIONS:
            return _ACTIVATIONS[name]
        keys.problems.append(f"{key}: {name!r:.40} is not modelled{hint(str(name), _ACTIVATIONS)}")
        break
    return family.activation


def _notes(keys: Keys) -> list[str]:
    """Notes on the config for the reader of the numbers."""
    notes = list(keys.notes)
    for key in ("quantization_config", "quantization"):
        quantized = keys.get(key)
        if quantized:
            method = quantized.get("quant_method", "?") if isinstance(quantized, dict) else quantized
            notes.append(f"{key} ({method!r:.40}) is ignored: training state is not sized from it")
    dropouts = [key for key in ("attention_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout") if keys.config.get(key)]
    notes.extend(f"{key}={keys.config[key]!r:.20} is ignored: the step trains without dropout" for key in dropouts)
    if keys.config.get("auto_map"):
        notes.append("auto_map names code of the model's own, which lcplan does not read")
    unknown = unknown_keys(keys.config, frozenset(keys.used))
    if unknown:
        notes.append(f"keys that lcplan does not know, taken as without effect: {', '.join(unknown)}"[:300])
    return notes
