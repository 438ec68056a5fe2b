"""StepProfile: where the time of a profiled step went, by part of a step's time, collective and operation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcplan.formats.errors import BadInputError
from planner.inspect.profile.attribute import UNNAMED, Names, rank_of
from planner.inspect.profile.busy import Busy, busy_time
from planner.inspect.profile.events import DeviceEvents, Program
from planner.inspect.profile.operation import Operation

_Key = TypeVar("_Key", str, tuple[str, str])


@dataclass(frozen=True)
class PartTime:
    """Time of one part in the step [s]."""

    exposed_s: float
    """Its share of the step: of a compute part all of its time, of communication the time that no compute hides."""
    total_s: float


@dataclass(frozen=True)
class StepProfile:
    """A profiled program: the median step of its slowest device, whose parts and idle time sum to ``step_s``."""

    program: str
    devices: tuple[str, ...]
    steps: int
    step_s: float
    samples_s: tuple[float, ...]
    """Every step of the slowest device [s]."""
    parts: dict[str, PartTime]
    idle_s: float
    collectives: dict[tuple[str, str], PartTime]
    """Time of each op and axis; where no plan names the axes, of each op and group size."""
    calls: dict[tuple[str, str], int]
    """Calls of each collective."""
    operations: tuple[tuple[Operation, str, float], ...]
    """Operations with most time, the part of each, and its time in all of its calls [s]."""
    part_samples_s: dict[str, tuple[float, ...]]
    """Time of each part in every step [s]."""
    collective_samples_s: dict[tuple[str, str], tuple[float, ...]]
    """Time of each collective in every step, hidden or not [s]."""

    @property
    def named_ratio(self) -> float:
        """Share of the step's time that has a name."""
        unnamed = self.parts.get(UNNAMED)
        return 1.0 - (unnamed.exposed_s if unnamed else 0.0) / self.step_s

    def to_json(self) -> dict[str, Any]:
        """Return the document of the profile."""
        return {
            "program": self.program,
            "devices": list(self.devices),
            "steps": self.steps,
            "step_s": self.step_s,
            "named_ratio": self.named_ratio,
            "idle_s": self.idle_s,
            "parts": {key: {"exposed_s": one.exposed_s, "total_s": one.total_s} for key, one in self.parts.items()},
            "collectives": [
                {
                    "op": op,
                    "axis": axis,
                    "calls": self.calls.get((op, axis), 0),
                    "exposed_s": one.exposed_s,
                    "total_s": one.total_s,
                }
                for (op, axis), one in self.collectives.items()
            ],
            "operations": [
                {"name": one.name, "kind": one.kind, "part": part, "path": one.path, "source": one.source, "seconds": seconds}
                for one, part, seconds in self.operations
            ],
        }


def profile_of(program: Program, names: Names, *, most_operations: int = 10) -> StepProfile:
    """Return the time of a step by part.

    Where there are three steps or more, the first is left out: it may hold a compilation.

    Raises
    ------
    BadInputError
        No step of the program is whole.
    """
    return _Profiled(program, names).result(most_operations)


@dataclass(frozen=True)
class _Step:
    device: str
    length_s: float
    parts: Busy
    collectives: Busy
    events: NDArray[np.int64]
    durations_s: NDArray[np.float64]


@dataclass(frozen=True)
class _Profiled:
    program: Program
    names: Names

    def result(self, most_operations: int) -> StepProfile:
        steps = [step for device in self.program.events() for step in self._steps(device)]
        if not steps:
            raise BadInputError(f"{self.program.name}: the profile holds no whole step of it; trace a few steps")
        by_device = defaultdict(list)
        for step in steps:
            by_device[step.device].append(step)
        slowest = max(by_device.values(), key=lambda found: float(np.median([one.length_s for one in found])))
        middle = sorted(slowest, key=lambda one: one.length_s)[(len(slowest) - 1) // 2]
        return StepProfile(
            program=self.program.name,
            devices=tuple(sorted(by_device)),
            steps=len(slowest),
            step_s=middle.length_s,
            samples_s=tuple(one.length_s for one in slowest),
            parts=_times(middle.parts, self._part_names),
            idle_s=middle.parts.idle_s,
            collectives=_times(middle.collectives, self._collective_names),
            calls=self._calls(middle),
            operations=self._longest(middle, most_operations),
            part_samples_s=_samples([one.parts for one in slowest], self._part_names),
            collective_samples_s=_samples([one.collectives for one in slowest], self._collective_names),
        )

    @cached_property
    def _part_of(self) -> list[str]:
        return [self.names.part(one) for one in self.program.operations]

    @cached_property
    def _part_names(self) -> list[str]:
        return sorted(set(self._part_of) - {""}, key=lambda key: (rank_of(key), key))

    @cached_property
    def _collective_names(self) -> list[tuple[str, str]]:
        return sorted({self.names.collective(one) for one in self.program.operations if one.kind == "collective"})

    @cached_property
    def _parts(self) -> NDArray[np.int64]:
        """Number of each operation's part; -1: none."""
        place = {key: number for number, key in enumerate(self._part_names)}
        return np.array([place.get(part, -1) for part in self._part_of], dtype=np.int64)

    @cached_property
    def _classes(self) -> NDArray[np.int64]:
        """Number of each operation's kind of collective, from one; 0: another operation."""
        place = {key: number for number, key in enumerate(self._collective_names, 1)}
        of = self.names.collective
        return np.array([place[of(one)] if one.kind == "collective" else 0 for one in self.program.operations], dtype=np.int64)

    def _steps(self, device: DeviceEvents) -> list[_Step]:
        keep = np.array([one.kind != "container" for one in self.program.operations])[device.operation]
        spans = np.stack([device.start_s, device.end_s], axis=1)
        found = []
        for start, end in _windows(device):
            inside = keep & (device.start_s < end) & (device.end_s > start)
            found.append(self._step(device, spans[inside], device.operation[inside], window=(start, end)))
        return found[1:] if len(found) > 2 else found

    def _step(
        self, device: DeviceEvents, spans: NDArray[np.float64], operations: NDArray[np.int64], *, window: tuple[float, float]
    ) -> _Step:
        ranks = [rank_of(key) for key in self._part_names]
        collectives = [0, *(1 for _ in self._collective_names)]
        return _Step(
            device=device.device,
            length_s=window[1] - window[0],
            parts=busy_time(spans, self._parts[operations], ranks=ranks, window=window),
            collectives=busy_time(spans, self._classes[operations], ranks=collectives, window=window),
            events=operations,
            durations_s=spans[:, 1] - spans[:, 0],
        )

    def _calls(self, step: _Step) -> dict[tuple[str, str], int]:
        """Count the collectives; a ``-done`` is no call of its own."""
        counted: Counter[tuple[str, str]] = Counter()
        for number, times in zip(*np.unique(step.events, return_counts=True), strict=True):
            one = self.program.operations[number]
            if one.kind == "collective" and not one.name.split(".")[0].endswith("done"):
                counted[self.names.collective(one)] += int(times)
        return dict(counted)

    def _longest(self, step: _Step, most: int) -> tuple[tuple[Operation, str, float], ...]:
        seconds = np.zeros(len(self.program.operations))
        np.add.at(seconds, step.events, step.durations_s)
        order = np.argsort(-seconds)[:most]
        return tuple((self.program.operations[i], self._part_of[i], float(seconds[i])) for i in order if seconds[i] > 0)


def _times(busy: Busy, keys: Sequence[_Key]) -> dict[_Key, PartTime]:
    """Return the time of each class that ran; ``keys`` name the last classes."""
    offset = len(busy.taken_s) - len(keys)
    found = {key: PartTime(float(busy.taken_s[i + offset]), float(busy.total_s[i + offset])) for i, key in enumerate(keys)}
    return {key: one for key, one in found.items() if one.total_s > 0}


def _samples(busy: Sequence[Busy], keys: Sequence[_Key]) -> dict[_Key, tuple[float, ...]]:
    offset = len(busy[0].total_s) - len(keys)
    return {key: tuple(float(one.total_s[number + offset]) for one in busy) for number, key in enumerate(keys)}


def _windows(device: DeviceEvents) -> list[tuple[float, float]]:
    """Return the start of each run and the start of the next; the last run ends with its last event."""
    if (device.run >= 0).any():
        starts = [float(device.start_s[device.run == run].min()) for run in np.unique(device.run[device.run >= 0])]
    else:
        starts = _starts_by_count(device)
    starts.sort()
    return list(zip(starts, [*starts[1:], float(device.end_s.max())], strict=True))


def _starts_by_count(device: DeviceEvents) -> list[float]:
    """Return the starts of runs that the profile does not number: those of the first operation that is in no loop.

    An operation outside loops runs once a run, so that its count is the least; of these, the first in the program begins a run.
    """
    counts = np.bincount(device.operation)
    least = counts[counts > 0].min()
    first = next(number for number in device.operation if counts[number] == least)
    return [float(start) for start in device.start_s[device.operation == first]]
