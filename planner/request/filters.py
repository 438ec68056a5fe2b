"""Filters: which values of each axis and knob a request lets into the space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.suggest import hint
from lcplan.strategy import AXES, AXIS_WORDS, KNOBS
from planner.request.knob_fields import with_knobs

Interval = tuple[int, int]
LARGEST_AXIS = 2**20
LONGEST_RANGE = 20
"""Characters of a size or a range of sizes."""
"""The largest size of an axis that a mesh takes."""


class AxisFilter(Frozen):
    """The sizes of one mesh axis that are let in: a union of closed intervals."""

    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]

    def allows(self, size: int) -> bool:
        """Whether one of the intervals contains ``size``."""
        return any(low <= size <= high for low, high in self.intervals)

    @property
    def fixed(self) -> int | None:
        """The one size that is let in, if there is only one."""
        low, high = self.intervals[0]
        return low if len(self.intervals) == 1 and low == high else None

    @property
    def words(self) -> str:
        """The sizes as ``parse_mesh`` reads them."""
        return ",".join(str(low) if low == high else f"{low}..{high}" for low, high in self.intervals)


@with_knobs
class Filters(Frozen):
    """Everything that narrows the space: the sizes of axes and the values of each knob that are let in.

    Empty means: all that the grid covers (``planner.space.enumerate.Knobs``).
    """

    mesh: dict[str, AxisFilter] = {}
    rollout_mesh: dict[str, AxisFilter] = {}
    """The same of a rollout that takes turns with a train step on another mesh."""

    if TYPE_CHECKING:

        def __init__(
            self,
            mesh: Mapping[str, AxisFilter] | None = None,
            rollout_mesh: Mapping[str, AxisFilter] | None = None,
            **knobs: Any,
        ) -> None: ...

        def __getattr__(self, name: str) -> tuple[Any, ...]: ...


def wrong_values(knobs: Mapping[str, Sequence[object]]) -> list[str]:
    """List the values that no strategy can have, by option, with the names and limits of each knob's record.

    >>> wrong_values({"ulysses": (8, 2**21), "scheme": ("rng",)})
    ['--ulysses 2097152: a strategy takes at most 1048576', "--scheme: unknown value 'rng'; did you mean 'ring'?"]
    """
    return [problem for name, values in knobs.items() for value in values for problem in _wrong(name, value)]


def _wrong(name: str, value: object) -> Iterator[str]:
    knob = KNOBS[name]
    if knob.values:
        if value not in knob.values:
            yield f"{knob.option}: unknown value {value!r:.40}{hint(str(value), knob.values)}"
    elif isinstance(value, bool) or not isinstance(value, int):
        yield f"{knob.option}: {value!r:.40} is not a whole number"
    elif value < knob.least:
        yield f"{knob.option} {value}: a strategy takes at least {knob.least}"
    elif value > knob.most:
        yield f"{knob.option} {value}: a strategy takes at most {knob.most}"


def refuse_several(filters: Filters, knobs: Iterable[str]) -> None:
    """Refuse several values of a knob where one strategy is asked for.

    Raises
    ------
    BadInputError
        With every such knob.
    """
    many = [KNOBS[name].option for name in knobs if len(getattr(filters, name)) > 1]
    if many:
        raise BadInputError([f"estimate prices one strategy; give one value for {option}" for option in many])


def parse_mesh(text: str, option: str = "--mesh") -> dict[str, AxisFilter]:
    """Parse ``context=8..32,tensor=1,2``, the value of ``option``, into one filter per axis.

    Raises
    ------
    BadInputError
        With every problem: an unknown axis (and the nearest name), a size that is not a whole number above zero, an axis
        given twice.

    >>> parse_mesh("context=8..32,tensor=1,2")["tensor"].intervals
    ((1, 1), (2, 2))
    """
    return _parsed(text, option, _axis_problem)


def sizes_text(sizes: Mapping[str, object]) -> str:
    """Return sizes by axis as ``parse_mesh`` reads them.

    >>> sizes_text({"context": "8..32", "tensor": (1, 2), "fsdp": AxisFilter(intervals=((2, 4),))})
    'context=8..32,tensor=1,2,fsdp=2..4'
    """

    def words(size: object) -> str:
        if isinstance(size, AxisFilter):
            return size.words
        return ",".join(map(str, size)) if isinstance(size, list | tuple) else str(size)

    return ",".join(f"{axis}={words(size)}" for axis, size in sizes.items())


def parse_sizes(text: str, option: str, axes: tuple[str, ...]) -> dict[str, AxisFilter]:
    """Parse ``rows=1..16``, the value of ``option``, into one filter per axis of a mesh whose axes are ``axes``.

    Raises
    ------
    BadInputError
        With every problem, as ``parse_mesh``.
    """
    return _parsed(text, option, lambda axis: "" if axis in axes else f"unknown axis {axis!r}{hint(axis, axes)}")


def _axis_problem(axis: str) -> str:
    """Return the fault of an axis name of lcplan's own meshes; empty if it is right."""
    if axis in AXIS_WORDS:
        return f"{axis!r} is called {AXIS_WORDS[axis]!r} here"
    return "" if axis in AXES else f"unknown axis {axis!r}{hint(axis, AXES)}"


def _parsed(text: str, option: str, wrong: Callable[[str], str]) -> dict[str, AxisFilter]:
    values: dict[str, list[Interval]] = {}
    problems: list[str] = []
    axis: str | None = None
    for part in (piece.strip() for piece in text.split(",")):
        name, equals, size = part.partition("=")
        if equals:
            axis = name.strip()
            problem = wrong(axis)
            if problem:
                problems.append(f"{option} {problem}" if problem.startswith(f"{axis}:") else f"{option}: {problem}")
            elif axis in values:
                problems.append(f"{option}: axis {axis!r} is given twice")
            values.setdefault(axis, [])
        else:
            size = part
        if axis is None:
            problems.append(f"{option} {text!r}: write axis=size, for example context=16,tensor=2")
            break
        interval = _interval(size.strip())
        if interval is None:
            problems.append(
                f"{option} {axis}={size[:40]!r}: not a whole number above zero, nor a range like 8..32; at most {LARGEST_AXIS}"
            )
        else:
            values[axis].append(interval)
    if problems:
        raise BadInputError(problems)
    return {axis: AxisFilter(intervals=tuple(sizes)) for axis, sizes in values.items()}


def _interval(text: str) -> Interval | None:
    low, dots, high = text.partition("..")
    if not low.isdecimal() or (dots and not high.isdecimal()) or len(text) > LONGEST_RANGE:
        return None
    first, last = int(low), int(high) if dots else int(low)
    return (first, last) if 0 < first <= last <= LARGEST_AXIS else None
