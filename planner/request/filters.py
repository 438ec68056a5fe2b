"""Filters: which values of each axis and knob a request lets into the space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, get_args

from pydantic import Field

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.suggest import hint
from lcplan.strategy import AXES, AXIS_WORDS, Sampling, Strategy

Interval = tuple[int, int]
LARGEST_AXIS = 2**20
"""The largest size of an axis that a mesh takes."""


class AxisFilter(Frozen):
    """The sizes of one mesh axis that are let in: a union of closed intervals."""

    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]

    def allows(self, size: int) -> bool:
        """Whether ``size`` lies in one of the intervals."""
        return any(low <= size <= high for low, high in self.intervals)

    @property
    def fixed(self) -> int | None:
        """The one size that is let in, if there is only one."""
        low, high = self.intervals[0]
        return low if len(self.intervals) == 1 and low == high else None


class Filters(Frozen):
    """Everything that narrows the space. Empty means: all that the grid covers (``planner.space.enumerate.Knobs``)."""

    mesh: dict[str, AxisFilter] = {}
    scheme: tuple[str, ...] = ()
    remat: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()
    microbatches: tuple[int, ...] = ()
    loss_chunk_tokens: tuple[int, ...] = ()
    collective_matmul: tuple[str, ...] = ()
    gather_dtype: tuple[str, ...] = ()
    reduce_dtype: tuple[str, ...] = ()
    moments_dtype: tuple[str, ...] = ()
    sharding_mode: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    ulysses: tuple[int, ...] = ()
    bidirectional: tuple[str, ...] = ()
    moe_dispatch: tuple[str, ...] = ()
    moe_room_percent: tuple[int, ...] = ()
    attention_block: tuple[int, ...] = ()
    offload_percent: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()


KNOB_FILTERS: tuple[str, ...] = tuple(name for name in Filters.model_fields if name != "mesh")
"""Filters that list a knob's values, by name."""


def wrong_values(knobs: Mapping[str, Sequence[object]]) -> list[str]:
    """What is wrong with values of knobs that no strategy can have: their field's own names and limits, by option.

    >>> wrong_values({"ulysses": (8, 2**21), "scheme": ("rng",)})
    ['--ulysses 2097152: a strategy takes at most 1048576', "--scheme: unknown value 'rng'; did you mean 'ring'?"]
    """
    return [problem for name, values in knobs.items() for value in values for problem in _wrong(name, value)]


def _wrong(name: str, value: object) -> Iterator[str]:
    option, field = f"--{name.replace('_', '-')}", Strategy.model_fields.get(name) or Sampling.model_fields.get(name)
    if field is None:
        return
    names = get_args(field.annotation)
    if names:
        if value not in names:
            yield f"{option}: unknown value {value!r:.40}{hint(str(value), names)}"
        return
    if isinstance(value, bool) or not isinstance(value, int):
        yield f"{option}: {value!r:.40} is not a whole number"
        return
    bounds = {key: getattr(bound, key) for bound in field.metadata for key in ("gt", "ge", "le") if hasattr(bound, key)}
    least, most = bounds.get("ge", bounds.get("gt", -1) + 1), bounds.get("le", value)
    if value < least:
        yield f"{option} {value}: a strategy takes at least {least}"
    elif value > most:
        yield f"{option} {value}: a strategy takes at most {most}"


def parse_mesh(text: str) -> dict[str, AxisFilter]:
    """``context=8..32,tensor=1,2`` as one filter an axis.

    Raises
    ------
    BadInputError
        With every problem: an unknown axis (and the nearest name), a size that is not a whole number above zero, an axis
        given twice.

    >>> parse_mesh("context=8..32,tensor=1,2")["tensor"].intervals
    ((1, 1), (2, 2))
    """
    values: dict[str, list[Interval]] = {}
    problems: list[str] = []
    axis: str | None = None
    for part in (piece.strip() for piece in text.split(",")):
        name, equals, size = part.partition("=")
        if equals:
            axis = name.strip()
            if AXIS_WORDS.get(axis, axis) == "pipe":
                problems.append(f"--mesh {axis}: lcplan has no pipeline axis; use context, tensor and fsdp")
            elif axis in AXIS_WORDS:
                problems.append(f"--mesh: {axis!r} is called {AXIS_WORDS[axis]!r} here")
            elif axis not in AXES:
                problems.append(f"--mesh: unknown axis {axis!r}{hint(axis, AXES)}")
            elif axis in values:
                problems.append(f"--mesh: axis {axis!r} stands twice")
            values.setdefault(axis, [])
        else:
            size = part
        if axis is None:
            problems.append(f"--mesh {text!r}: write axis=size, for example context=16,tensor=2")
            break
        interval = _interval(size.strip())
        if interval is None:
            problems.append(
                f"--mesh {axis}={size!r}: not a whole number above zero, nor a range like 8..32; at most {LARGEST_AXIS}"
            )
        else:
            values[axis].append(interval)
    if problems:
        raise BadInputError(problems)
    return {axis: AxisFilter(intervals=tuple(sizes)) for axis, sizes in values.items()}


def _interval(text: str) -> Interval | None:
    low, dots, high = text.partition("..")
    if not low.isdecimal() or (dots and not high.isdecimal()):
        return None
    first, last = int(low), int(high) if dots else int(low)
    return (first, last) if 0 < first <= last <= LARGEST_AXIS else None
