"""Flags of XLA and libtpu in a MaxText file or script: backend, scheduler preset, and the flags that lcplan does not price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.measure.targets.backends import GPU_BACKENDS
from planner.measure.targets.compile_option import Option
from planner.measure.targets.schedulers import PRESETS

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
COMPILE_KEY = "compile_xla_flags"
"""The key whose flags MaxText gives to its compile; they count like those of the environment."""
_BOOLEANS = {"1": "true", "true": "true", "": "true", "0": "false", "false": "false"}
_MATMUL = ("windowed_einsum", "collective_matmul")
_UNPRICED = ("combine", "pipeline", "async", "latency", "schedul", "overlap", "collective", "nccl", "offload")
"""Parts of the names of flags that change communication or its schedule."""


@dataclass(frozen=True)
class Flags:
    """The flags as ``options`` of lcplan, and notes on the flags that it does not price."""

    options: Mapping[str, Any]
    notes: tuple[str, ...]


def read_flags(words: Iterable[str]) -> Flags:
    """Read flags; the last setting of a flag counts, as in XLA."""
    given: dict[str, str] = {}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        given[name] = value
    options: dict[str, Any] = {}
    notes: list[str] = []
    read: set[str] = set()
    for backend, facts in GPU_BACKENDS.items():
        found = [option for option in facts.options if _sets(given, option)]
        if found:
            options["backend"] = (backend,)
            notes += [f"{found[0].word}: of jax {facts.reach}"] if found[0].last else []
            read |= {option.name for option in found}
    preset, names = _preset(given)
    if preset is not None:
        options["scheduler"] = (preset,)
        read |= names
    notes += [note for name, value in given.items() if name not in read and (note := _note(name, value))]
    return Flags(options, tuple(notes))


def _sets(given: Mapping[str, str], option: Option) -> bool:
    """Whether the flags give the option its value; XLA takes ``1`` and an empty value for true."""
    value = given.get(option.name)
    return value is not None and (value == option.flag or _BOOLEANS.get(value.lower()) == option.flag)


def _preset(given: Mapping[str, str]) -> tuple[str | None, set[str]]:
    """The scheduler preset that sets the most of the flags, among those whose flags of one jax are all given."""
    best: tuple[str | None, set[str]] = (None, set())
    for name, kinds in PRESETS.items():
        for options in kinds.values():
            for group in (options, tuple(option for option in options if option.last is not None), _newest(options)):
                matching = {option.name for option in group if _sets(given, option)}
                if group and len(matching) == len({option.name for option in group}) > len(best[1]):
                    best = (name, matching)
    return best


def _newest(options: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(option for option in options if option.last is None)


def _note(name: str, value: str) -> str | None:
    flag = f"--{name}={value}"
    if name in {option.name for facts in GPU_BACKENDS.values() for option in facts.options}:
        return None
    if any(part in name for part in _MATMUL):
        return f"{flag}: XLA's collective matmul is not priced; lcplan prices whole products over tensor"
    if any(part in name for part in _UNPRICED):
        return f"{flag}: no preset of --scheduler sets it so; its effect on the step is not priced"
    return None
