"""Imported: a trainer's configuration as the values of ``lcplan estimate``'s own options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cost_models.inputs.program import STEP, Program
from lcplan.formats.errors import BadInputError
from lcplan.formats.text import few
from lcplan.spec.model import ModelSpec
from lcplan.strategy import AxisName
from planner.trainers import Difference, Job

MOST = 2**40
"""The largest count that a workload takes."""
LARGEST = 2**62
"""Above any size or rate of a configuration."""


def with_changes(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with some of them changed; None: without the setting.

    >>> with_changes({"a": 1, "b": 2}, {"a": None, "c": 3})
    {'b': 2, 'c': 3}
    """
    return {key: value for key, value in (dict(settings) | dict(changes)).items() if changes.get(key, value) is not None}


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the section of each before a dot as a mapping of sections.

    >>> nested({"a": 1, "s.b": 2, "s.c": 3})
    {'a': 1, 's': {'b': 2, 'c': 3}}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        section, dot, key = name.partition(".")
        if dot and isinstance(found.setdefault(section, {}), dict):
            found[section][key] = value
        else:
            found[name] = value
    return found


def nothing_more(_: Job) -> list[Difference]:
    """No difference beyond the trainer's usual ones."""
    return []


def nothing_refused(_: Job) -> list[str]:
    """No reason beyond the trainer's usual ones."""
    return []


@dataclass(frozen=True)
class Imported:
    """A configuration in lcplan's words. A value that it does not state is absent from ``options``, and never guessed."""

    trainer: str
    """The trainer that runs the steps; a front end's files name one."""
    file: str
    options: Mapping[str, Any]
    """``model`` (a ModelSpec), ``seq``, ``hw``, ``devices``, ``global_batch``, ``mesh``, ``scheme``, ``remat``, .."""
    defaults: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """Defaults of the trainer for options that the file does not state, each with its key and value in words."""
    through: str = ""
    """The front end that starts the trainer, with its version."""
    axis_order: tuple[AxisName, ...] | None = None
    unknown: tuple[str, ...] = ()
    """Keys that this version of the trainer does not know."""
    notes: tuple[str, ...] = ()
    """Settings that lcplan read differently from the file, or did not read."""
    more: Callable[[Job], list[Difference]] = field(default=nothing_more)
    """Differences between the run and the cost model that follow from this file."""
    refuses: Callable[[Job], list[str]] = field(default=nothing_refused)
    """Why the trainer does not run this file, by keys that lcplan has no knob for."""
    program: Program = STEP
    """The priced step; for a trainer in JAX the step of docs/step.md, perhaps with another kernel of attention."""
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """Options whose values only a shell knows, each with the reason; an error unless the command line gives them."""
    unpriced: tuple[str, ...] = ()
    """Parts of the run that lcplan has no price for, so that the verdict is not "fits"."""
    waives: tuple[str, ...] = ()
    """Rules of the trainer that do not hold for this way of running it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The file's settings, nested ones with their section before a dot; of a format whose settings lcplan can change."""
    again: Callable[[Mapping[str, Any]], Imported] | None = None
    """Reads the file with some of its settings changed, None: without the setting; None where lcplan can't change any."""
    whole_weights: bool = False
    """Whether every data-parallel rank holds the weights whole, as below ZeRO-3, though the mesh calls these ranks fsdp."""

    def __post_init__(self) -> None:
        """Keep the first of many notes and unknown keys: a file may have any number of them."""
        object.__setattr__(self, "unknown", few(self.unknown))
        object.__setattr__(self, "notes", few(self.notes))


class Reader(Protocol):
    """Reads a file."""

    def __call__(self, file: str, devices: int | None = None, *, slices: int = 1) -> Imported:
        """Read the file for a job of ``devices``, if known; only formats that count slices take ``slices``."""


def mesh_text(sizes: Mapping[str, int]) -> str:
    """Axis sizes as ``--mesh`` takes them; a job without an expert axis does not name it."""
    named = ("data", "fsdp", "context", "tensor", *("expert",) * (sizes.get("expert", 1) > 1))
    return ",".join(f"{axis}={sizes.get(axis, 1)}" for axis in named)


def with_experts(
    sizes: dict[str, int], experts: int, *, splits: bool, key: str, file: str
) -> tuple[dict[str, int], dict[str, tuple[Any, ...]]]:
    """Return mesh and knobs of a trainer whose expert ranks are the innermost of its context and fsdp ranks.

    Where no context rank is among them they are lcplan's expert axis, else they are folded.

    Parameters
    ----------
    sizes
        The mesh without them.
    experts
        Expert ranks.
    splits
        Whether tensor ranks split each expert; else they are among the expert ranks.
    key, file
        Of the number, for messages.

    Raises
    ------
    BadInputError
        The expert ranks do not divide the ranks that they are among.
    """
    if experts == 1:
        return sizes, {}
    splits = splits or sizes["tensor"] == 1
    if splits and sizes["context"] == 1 and sizes["fsdp"] % experts == 0:
        return sizes | {"fsdp": sizes["fsdp"] // experts, "expert": experts}, {}
    ranks = sizes["fsdp"] * sizes["context"] * (1 if splits else sizes["tensor"])
    if ranks % experts:
        names = "that have tokens of their own and shard the state" if splits else "that shard the state"
        raise BadInputError(
            f"{file}: {key}={experts} does not divide the {ranks} ranks {names}; lcplan puts experts only on these"
        )
    return sizes, {"expert_fold": (experts,), "expert_tensor": ("split" if splits else "whole",)}


def whole(value: Any, key: str, *, file: str) -> int:
    """A whole number above zero.

    Raises
    ------
    BadInputError
        The value is not such a number.
    """
    if not _is_number(value) or value != int(value) or not 1 <= value <= MOST:
        raise BadInputError(f"{file}: {key}: {value!r:.60} is not a whole number above zero")
    return int(value)


def number(value: Any, key: str, *, file: str) -> float:
    """A finite number.

    Raises
    ------
    BadInputError
        The value is not such a number.
    """
    if not _is_number(value):
        raise BadInputError(f"{file}: {key}: {value!r:.60} is not a number, or beyond any that a configuration means")
    return float(value)


def _is_number(value: Any) -> bool:
    """Neither text nor true nor false, and finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def refuse_axes(sizes: Mapping[str, Any], *, file: str) -> None:
    """Refuse axes that lcplan has no word for.

    Raises
    ------
    BadInputError
        One of them is above one.
    """
    wrong = [f"{file}: {name}={size}: lcplan has no such axis yet" for name, size in sizes.items() if size not in (1, None)]
    if wrong:
        raise BadInputError(wrong)


def recognised(model: ModelSpec) -> ModelSpec:
    """The catalogue's model of the same sizes, if there is one; else the model itself."""
    from lcplan import catalog

    apart = {"name", "source", "notes", "max_position", "sliding_window", "family"}
    if model.experts is not None and model.expert_layers == model.layers:  # the dense feed-forward's width is in no layer
        apart.add("d_ff")
    sizes = model.model_dump(exclude=apart)
    for name in catalog.model_names():
        known = catalog.model(name)
        if known.model_dump(exclude=apart) == sizes:
            return known
    return model


def catalogue_model(name: str) -> ModelSpec:
    """A model of the catalogue."""
    from lcplan import catalog

    return catalog.model(name)
