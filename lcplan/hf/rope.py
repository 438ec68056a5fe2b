"""The three ways in which a config states its rotary embedding, as one Rope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lcplan.hf.families import Family
from lcplan.hf.keys import Keys
from lcplan.spec.model import Rope

_KNOWN = {
    "type",
    "rope_type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "partial_rotary_factor",
    "truncate",
    "finetuned",
    "base",
    "scaling_factor",
}
_NAMES = {"default": "none", "linear": "linear", "dynamic": "dynamic", "llama3": "llama3", "yarn": "yarn"}


def read_rope(keys: Keys, family: Family) -> Rope:
    """``rope_parameters`` (transformers 5), ``rope_scaling`` with ``rope_type`` or ``type``, or internlm's ``rotary``.

    A wrong or unknown part is noted in ``keys.problems``.
    """
    key, given = _parameters(keys)
    theta = keys.number("rope_theta", default=family.theta)
    theta = keys.number("rope_theta", default=theta, inside=given, where=f"{key}.")
    theta = keys.number("base", default=theta, inside=given, where=f"{key}.")
    kind = given.get("rope_type") or given.get("type") or "default"
    kind = {"origin": "default"}.get(kind, kind) if isinstance(kind, str) else kind
    if not isinstance(kind, str) or kind not in family.scalings:
        modelled = ", ".join(family.scalings)
        keys.problems.append(f"{key}: type {kind!r:.40} is not modelled for this model_type; modelled: {modelled}")
        return Rope(theta=theta)
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        keys.problems.append(f"{key}: unknown key {', '.join(map(repr, unknown))}")
    if given.get("partial_rotary_factor") not in (None, 1, 1.0):
        keys.problems.append(f"{key}: partial_rotary_factor={given['partial_rotary_factor']!r}: only whole heads are modelled")
    if given.get("truncate") not in (None, True):
        keys.problems.append(f"{key}: truncate={given['truncate']!r} is not modelled")
    if kind == "default":
        return Rope(theta=theta)
    return _scaled(keys, given, key=key, kind=kind, theta=theta)


def _parameters(keys: Keys) -> tuple[str, Mapping[str, Any]]:
    """The key that states the embedding, and its mapping; an empty mapping if the config has no such key."""
    found = [(key, given) for key in ("rope_parameters", "rope_scaling", "rotary") if (given := keys.get(key)) is not None]
    if not found:
        return "rope_scaling", {}
    key, given = found[0]
    if not isinstance(given, dict):
        keys.problems.append(f"{key}: {given!r:.40} is not a mapping")
        return key, {}
    for other, values in found[1:]:
        if values != given:
            keys.problems.append(f"{other}: differs from {key}; keep one")
    return key, given


def _scaled(keys: Keys, given: Mapping[str, Any], *, key: str, kind: str, theta: float) -> Rope:
    where = f"{key}."

    def number(name: str, default: float) -> float:
        return keys.number(name, default=default, inside=given, where=where)

    name = "scaling_factor" if key == "rotary" else "factor"
    if name == "factor" and given.get(name) is None:
        keys.problems.append(f"{key}: missing key 'factor'")
    factor = number(name, 1.0)
    if factor < 1:
        keys.problems.append(f"{where}{name}: {factor:g} is below 1")
    values: dict[str, Any] = {"theta": theta, "scaling": _NAMES[kind], "factor": max(factor, 1.0)}
    if kind != "linear":
        values["original_max_position"] = _original(keys, given, key=key, kind=kind)
    if kind == "llama3":
        values |= {name: number(name, default) for name, default in (("low_freq_factor", 1.0), ("high_freq_factor", 4.0))}
    if kind == "yarn":
        values |= {name: number(name, default) for name, default in (("beta_fast", 32.0), ("beta_slow", 1.0))}
        values["attention_factor"] = _attention_factor(given, number, factor=values["factor"])
    return Rope(**values)


def _original(keys: Keys, given: Mapping[str, Any], *, key: str, kind: str) -> int | None:
    """Position range before scaling; classes fall back to max_position_embeddings. ``dynamic`` knows that one only."""
    value = None if kind == "dynamic" else given.get("original_max_position_embeddings")
    if value is None:
        value = keys.get("max_position_embeddings")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        keys.problems.append(f"{key}: type {kind!r} needs a whole original_max_position_embeddings or max_position_embeddings")
        return None
    return value


def _attention_factor(given: Mapping[str, Any], number: Any, *, factor: float) -> float | None:
    """YaRN's factor on queries and keys: as given, from DeepSeek's two mscale keys, or None for the class's own rule."""
    if given.get("attention_factor") is not None:
        return float(number("attention_factor", 1.0))
    if given.get("mscale") and given.get("mscale_all_dim"):
        return _mscale(number("mscale", 1.0), factor=factor) / _mscale(number("mscale_all_dim", 1.0), factor=factor)
    return None


def _mscale(scale: float, *, factor: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
