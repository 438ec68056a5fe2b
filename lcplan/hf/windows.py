"""The sliding window of a config, and which layers have it, each class in its own words."""

from __future__ import annotations

from typing import Any

from lcplan.hf.families import Family
from lcplan.hf.keys import Keys
from lcplan.spec.windows import WindowPattern

LARGEST_WINDOW = 2**40
FIRST_FULL = 28
"""``max_window_layers`` of Qwen's classes where the key is absent: this many first layers attend to everything."""
_TYPES = {"sliding_attention": True, "full_attention": False}


def read_window(keys: Keys, family: Family, *, layers: int) -> dict[str, Any]:
    """``sliding_window`` and, where not all layers have it, ``window_pattern``, as ModelSpec's fields."""
    use = keys.flag("use_sliding_window", default=False)
    first = keys.get("max_window_layers")
    window = _window_size(keys, family, use=use)
    types = keys.get("layer_types")
    if types is not None:
        windowed = _by_types(keys, types, layers=layers)
        if windowed is not None and any(windowed) and window is None:
            keys.problems.append("layer_types: some layers have a sliding window, but sliding_window (its length) is missing")
    elif window and family.window == "with-flag":
        windowed = _after_first(keys, FIRST_FULL if first is None else first, layers=layers)
    else:
        period = _period(keys, family)
        windowed = [bool((layer + 1) % period) for layer in range(layers)] if period else [window is not None] * layers
    return _fields(keys, window, windowed=windowed)


def _fields(keys: Keys, window: int | None, *, windowed: list[bool] | None) -> dict[str, Any]:
    if window is None or windowed is None or not any(windowed):
        return {}
    if all(windowed):
        return {"sliding_window": window}
    pattern = WindowPattern.from_layers(windowed)
    if pattern is None:
        keys.problems.append("layer_types: layers with and without a window come in no regular order, which is not modelled")
        return {}
    return {"sliding_window": window, "window_pattern": pattern.model_dump()}


def _by_types(keys: Keys, types: Any, *, layers: int) -> list[bool] | None:
    """Whether each layer is windowed; None, with a problem noted, where a layer is something else."""
    if not isinstance(types, list) or len(types) != layers:
        keys.problems.append(f"layer_types: {types!r:.40} is not a list with a kind for each of {layers} layers")
        return None
    foreign = next((kind for kind in types if not isinstance(kind, str) or kind not in _TYPES), None)
    if foreign is not None:
        keys.problems.append(f"layer_types: {foreign!r:.40} is not modelled")
        return None
    return [_TYPES[kind] for kind in types]


def _after_first(keys: Keys, first: Any, *, layers: int) -> list[bool] | None:
    if not isinstance(first, int) or isinstance(first, bool):
        keys.problems.append(f"max_window_layers: {first!r:.40} is not a whole number")
        return None
    return [layer >= first for layer in range(layers)]


def _period(keys: Keys, family: Family) -> int | None:
    """Layers of one window pattern, the last of which has no window; None: the class has no such pattern."""
    if family.period is None:
        return None
    return keys.whole("sliding_window_pattern", largest=4096, default=family.period)


def _window_size(keys: Keys, family: Family, *, use: bool) -> int | None:
    if family.window == "never":
        if keys.has("sliding_window") and keys.get("sliding_window") is not False:
            keys.problems.append(f"sliding_window: {keys.get('sliding_window')!r:.40} is not a key of this model_type")
        return None
    if family.window == "with-flag" and not use:
        keys.get("sliding_window")
        return None
    if "sliding_window" not in keys.config and family.window_default:
        keys.notes.append(f"sliding_window is absent: the class's default {family.window_default}")
        return family.window_default
    return keys.maybe_whole("sliding_window", largest=LARGEST_WINDOW)
