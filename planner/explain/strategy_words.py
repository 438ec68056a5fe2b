"""Naming a strategy: a row's number, or the mesh and knobs as tables print them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.text import whole_in
from lcplan.strategy import AXES, AXIS_RECORDS, KNOB_ALIASES, KNOBS, STEP_KNOBS, Mesh, Strategy
from planner.request.filters import parse_mesh, wrong_values
from planner.request.workload_options import no_such_knob
from planner.run.run_read import Run
from planner.space.count import segment_choices
from planner.space.enumerate import Knobs, mesh_options

_COUNTED = Counter(value for knob in KNOBS.values() for value in knob.values)
BARE: Mapping[str, str] = MappingProxyType(
    {value: name for name, knob in KNOBS.items() for value in knob.values if _COUNTED[value] == 1}
)
"""The knob of every value that only one knob has, which therefore needs no name."""
LETTERS: Mapping[str, str] = MappingProxyType({axis.letter: name for name, axis in AXIS_RECORDS.items()})
"""The axis of each letter."""


def named_strategy(text: str, run: Run) -> Strategy:
    """The strategy that ``text`` names: ``3`` is the run's third, ``context=8,tensor=2 ring remat=save-all`` one by its label.

    ``c8 t2`` names the axes as tables do. Knobs that are not named are those of a candidate of the run that has all that is
    named, else the winner's; microbatches and loss chunk then follow the mesh.

    Raises
    ------
    BadInputError
        No such row, or words that name no strategy.
    """
    if text.strip().isdecimal():
        number = whole_in(text.strip()) or 0
        if not 1 <= number <= len(run.shown):
            raise BadInputError(f"strategy {text.strip():.20}: the run has candidates 1 to {len(run.shown)}")
        return run.shown[number - 1].strategy
    mesh, fields = _parsed(text, run.request.workload.kind)
    for candidate in run.shown:
        strategy = candidate.strategy
        if strategy.mesh == mesh and all(strategy.knob(name) == value for name, value in fields.items()):
            return strategy
    return _made(run, mesh, fields=fields)


def _parsed(text: str, kind: str) -> tuple[Mesh, dict[str, Any]]:
    sizes: dict[str, int] = {}
    fields: dict[str, Any] = {}
    problems: list[str] = []
    for word in text.split():
        name, equals, value = word.partition("=")
        name = BARE.get(word, name.replace("-", "_"))
        name = KNOB_ALIASES.get(name, name)
        if name in KNOBS and (equals or word in BARE):
            fields[name] = _value(name, value if equals else word)
        elif equals:
            sizes |= {axis: allowed.fixed or 0 for axis, allowed in parse_mesh(word).items()}
        elif (short := re.fullmatch(r"([a-z])([1-9]\d{0,5})", word)) and short[1] in LETTERS:
            sizes[LETTERS[short[1]]] = int(short[2])
        else:
            known = [*BARE, *(f"{name}=" for name in (*AXES, *KNOBS))]
            problems.append(f"strategy: unknown word {word!r}{hint(word, known)}")
    problems += [
        f"strategy: {problem.removeprefix('--')}"
        for problem in wrong_values({name: (value,) for name, value in fields.items()})
    ]
    problems += [f"strategy: {no_such_knob(KNOBS[name], kind)}" for name in fields if kind not in KNOBS[name].workloads]
    if problems or not all(sizes.values()):
        raise BadInputError(problems or [f"strategy {text!r}: give one size for each axis"])
    return Mesh(**sizes), fields


def _value(name: str, text: str) -> int | str:
    number = whole_in(text) if KNOBS[name].is_number else None
    return KNOBS[name].value(text) if number is None else number


def _made(run: Run, mesh: Mesh, *, fields: dict[str, Any]) -> Strategy:
    request = run.request
    options = mesh_options(request, Knobs.of(request.filters, run.backends, kind=request.hardware.kind), mesh.sizes)
    followed = [name for name in ("microbatches", "loss_chunk_tokens") if request.workload.kind in KNOBS[name].workloads]
    sizes = {name: options[name][-1] for name in followed}
    sizes["segment"] = segment_choices(request, mesh.devices, mesh.tensor)[0]
    base: dict[str, Any] = run.chosen.strategy.model_dump() if run.chosen else {}
    base.setdefault("backend", run.backends[0])
    own = {name: value for name, value in fields.items() if name in STEP_KNOBS}
    if "sampling" in base:
        alone = {} if base["sampling"]["beside_training"] else {"mesh": mesh}
        of_rollout = {name: value for name, value in fields.items() if name not in STEP_KNOBS}
        base["sampling"] = base["sampling"] | alone | of_rollout
    return Strategy.model_validate(base | {"mesh": mesh} | sizes | own)
