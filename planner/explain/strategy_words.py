"""Naming a strategy: a row's number, or the mesh and knobs as tables print them."""

from __future__ import annotations

from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.strategy import AXES, BACKENDS, COLLECTIVE_MATMULS, SCHEMES, Mesh, Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.request.filters import parse_mesh
from planner.run.run_read import Run
from planner.space.enumerate import Knobs, mesh_options

_SIZES = ("microbatches", "loss_chunk_tokens", "ulysses", "attention_block", "offload_percent")
_WORDS = {"scheme": SCHEMES, "backend": BACKENDS, "remat": tuple(REMAT_POLICIES), "collective_matmul": COLLECTIVE_MATMULS}
_KEYS = (
    "scheme",
    "remat",
    "backend",
    *_SIZES,
    "collective_matmul",
    "gather_dtype",
    "reduce_dtype",
    "moments_dtype",
    "bidirectional",
    "sharding_mode",
    "scheduler",
)


def named_strategy(text: str, run: Run) -> Strategy:
    """The strategy that ``text`` names: ``3`` is the run's third, ``context=8,tensor=2 ring remat=none`` one by its label.

    Knobs that are not named are those of a candidate of the run that has all that is named, else the winner's; microbatches
    and loss chunk then follow the mesh.

    Raises
    ------
    BadInputError
        No such row, or words that name no strategy.
    """
    if text.strip().isdecimal():
        number = int(text)
        if not 1 <= number <= len(run.shown):
            raise BadInputError(f"strategy {number}: the run has candidates 1 to {len(run.shown)}")
        return run.shown[number - 1].strategy
    mesh, fields = _parsed(text)
    for candidate in run.shown:
        strategy = candidate.strategy
        if strategy.mesh == mesh and all(str(getattr(strategy, name)) == str(value) for name, value in fields.items()):
            return strategy
    return _made(run, mesh, fields=fields)


def _parsed(text: str) -> tuple[Mesh, dict[str, Any]]:
    sizes: dict[str, int] = {}
    fields: dict[str, Any] = {}
    problems = []
    for word in text.split():
        name, equals, value = word.partition("=")
        name = name.replace("-", "_")
        if equals and name in _KEYS:
            fields[name] = int(value) if name in _SIZES and value.isdecimal() else value
        elif equals:
            sizes |= {axis: allowed.fixed or 0 for axis, allowed in parse_mesh(word).items()}
        elif (key := next((key for key, known in _WORDS.items() if word in known), None)) is not None:
            fields[key] = word
        else:
            known = [word for words in _WORDS.values() for word in words] + [f"{axis}=" for axis in AXES]
            problems.append(f"strategy: unknown word {word!r}{hint(word, known)}")
    if problems or not all(sizes.values()):
        raise BadInputError(problems or [f"strategy {text!r}: give one size for each axis"])
    return Mesh(**sizes), fields


def _made(run: Run, mesh: Mesh, *, fields: dict[str, Any]) -> Strategy:
    options = mesh_options(run.request, Knobs.of(run.request.filters, run.backends, kind=run.request.hardware.kind), mesh.sizes)
    sizes = {"microbatches": options["microbatches"][-1], "loss_chunk_tokens": options["loss_chunk_tokens"][-1]}
    base = (run.winner or run.shown[0]).strategy.model_dump() if run.shown else {"backend": run.backends[0]}
    data = base | {"mesh": mesh} | sizes | fields
    from pydantic import ValidationError

    try:
        return Strategy.model_validate(data)
    except ValidationError as error:
        raise BadInputError([f"strategy: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]) from None
