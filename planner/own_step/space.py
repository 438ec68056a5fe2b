"""The strategies of a step of one's own: meshes with all combinations of knobs, and the rules that reject some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.spec.own_step import KnobValue, StepSpace, StepStrategy
from planner.own_step.expressions import Expression
from planner.own_step.request import StepRequest

MOST_STRATEGIES = 200_000
"""Strategies of one search."""


@dataclass(frozen=True)
class Declared:
    """The rules and the tokens of a declaration, parsed."""

    space: StepSpace
    workload: dict[str, int]
    rules: tuple[tuple[Expression, str], ...]
    tokens: Expression | None

    @classmethod
    def of(cls, request: StepRequest) -> Declared:
        """Parse the expressions of a request."""
        where = f"{request.step}: LCPLAN"
        rules = tuple((Expression(text, where=where), reason) for text, reason in request.space.rules.items())
        tokens = request.space.tokens
        if tokens is None and {"seq_len", "global_batch"} <= request.workload.keys():
            tokens = "seq_len * global_batch"
        parsed = Expression(str(tokens), where=where) if tokens is not None else None
        return cls(request.space, request.workload, rules, parsed)

    def names(self, strategy: StepStrategy) -> dict[str, Any]:
        """Values of the names that expressions use."""
        return {**self.workload, **strategy.mesh, **strategy.knobs, "devices": strategy.devices}

    def tokens_of(self, strategy: StepStrategy) -> float | None:
        """Tokens of one step; None if neither the file nor the options give them."""
        if self.tokens is None:
            return None
        value = self.tokens.value(self.names(strategy))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise BadInputError(f"LCPLAN: tokens {self.tokens.text!r} = {value!r} is not a number above zero")
        return float(value)

    def broken(self, strategy: StepStrategy) -> tuple[str, str] | None:
        """The first rule that a strategy breaks, and the reason with its numbers; None where it keeps all."""
        names = self.names(strategy)
        for rule, reason in self.rules:
            if not rule.value(names):
                return rule.text, f"{strategy.label}: {rule.text!r} does not hold for {rule.shown(names)}: {reason}"
        return None


@dataclass
class Points:
    """The strategies of a search. ``steps`` are the places of each knob's value in its list."""

    allowed: list[StepStrategy] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def enumerated(self) -> int:
        """All strategies."""
        return len(self.allowed) + sum(self.rejected.values())

    def reject(self, rule: str, example: str) -> None:
        """Count a rejected strategy."""
        self.rejected[rule] = self.rejected.get(rule, 0) + 1
        self.examples.setdefault(rule, example)


def enumerate_points(request: StepRequest, declared: Declared) -> Points:
    """Enumerate and reject.

    Raises
    ------
    BadInputError
        No mesh has the sizes that are asked for, or there are too many strategies to look at.
    """
    meshes = [mesh for mesh in meshes_of(tuple(request.space.axes), request.devices) if _let_in(request, mesh)]
    if not meshes:
        raise BadInputError(
            f"no mesh of {', '.join(request.space.axes)} on {request.devices} devices has the sizes of --mesh; their product is"
            f" the number of devices: change --mesh or --devices"
        )
    knobs = {name: request.knobs.get(name, values) for name, values in request.space.knobs.items()}
    count = len(meshes)
    for values in knobs.values():
        count *= len(values)
    if count > MOST_STRATEGIES:
        raise BadInputError(f"{request.step}: {count:,} strategies; narrow them to {MOST_STRATEGIES:,} with --mesh and --knob")
    points = Points()
    for mesh in meshes:
        for values in product(*knobs.values()):
            _place(points, StepStrategy(mesh=mesh, knobs=dict(zip(knobs, values, strict=True))), declared)
    return points


def _place(points: Points, strategy: StepStrategy, declared: Declared) -> None:
    broken = declared.broken(strategy)
    if broken is None:
        points.allowed.append(strategy)
    else:
        points.reject(*broken)


def _let_in(request: StepRequest, mesh: dict[str, int]) -> bool:
    return all(axis not in request.mesh or request.mesh[axis].allows(size) for axis, size in mesh.items())


def meshes_of(axes: tuple[str, ...], devices: int) -> Iterator[dict[str, int]]:
    """Every way to write ``devices`` as a product of axis sizes.

    >>> [tuple(mesh.values()) for mesh in meshes_of(("data", "model"), 4)]
    [(1, 4), (2, 2), (4, 1)]
    """
    if len(axes) == 1:
        yield {axes[0]: devices}
        return
    for size in (one for one in range(1, devices + 1) if devices % one == 0):
        yield from ({axes[0]: size, **rest} for rest in meshes_of(axes[1:], devices // size))


def knob_places(space: StepSpace, strategy: StepStrategy) -> tuple[int, ...]:
    """Place of each knob's value in its list: 0 is the fastest."""
    return tuple(_index(space.knobs[name], value) for name, value in strategy.knobs.items())


def _index(values: tuple[KnobValue, ...], value: KnobValue) -> int:
    return next(i for i, one in enumerate(values) if one == value and type(one) is type(value))
