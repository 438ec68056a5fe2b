"""Time of an executable: its operations one after another, and its asynchronous collectives during them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cost_models.executable.kernels import OperationCost
from cost_models.rates.published import rates_of
from lcplan.evidence.execution import Branch, Done, Execution, Item, Kernel, Loop, Message
from lcplan.spec.hardware import HardwareSpec

NAMES = {
    "product": "matrix products",
    "attention": "attention",
    "memory": "memory-bound work",
    "host": "copies over the host link",
}
"""Names of the parts of a device's own work."""


@dataclass(frozen=True)
class MessageTime:
    """Time of the equal collectives of a step [s]: all of it, and the part in which nothing else runs.

    Source: the executable's schedule, with ``cost_models.collectives.network`` for each message.
    """

    message: Message
    calls: int
    total_s: float
    exposed_s: float

    def to_json(self) -> dict[str, Any]:
        """Return the document of these collectives.

        Returns
        -------
        dict
            Op and axis, bytes and calls of a step, and times [s per step].

        Notes
        -----
        Source: the executable's schedule.
        """
        facts = {name: getattr(self.message, name) for name in ("op", "axis", "bytes")}
        return facts | {"calls": self.calls, "total_s": self.total_s, "exposed_s": self.exposed_s}


@dataclass(frozen=True)
class ExecutionTime:
    """Time of one run of an executable by part [s per step]; the step is their sum.

    Source: ``cost_models.executable.kernels``.
    """

    parts: Mapping[str, float]
    messages: tuple[MessageTime, ...]
    """Collectives, the one with the most exposed time first."""

    @property
    def step_s(self) -> float:
        """Return the whole step [s]."""
        return sum(self.parts.values())


def execution_time(execution: Execution, hardware: HardwareSpec, *, devices: int) -> ExecutionTime:
    """Return the time of one run of an executable.

    Kernels run one after another in the order of the schedule. An asynchronous collective runs during the kernels between its
    start and its end; the device waits for the rest of it. Collectives run one after another among themselves. Of a
    conditional's branches the slowest counts, since the slowest device takes it.

    Parameters
    ----------
    execution : Execution
        Operations.
    hardware : HardwareSpec
        Machine.
    devices : int
        Devices of the job [count].

    Returns
    -------
    ExecutionTime
        Parts [s per step].

    Notes
    -----
    Ignores contention of collectives with kernels, launches other than ``KERNEL_FLOOR_S``, and kernels whose work the text does
    not state. Source: the schedule is XLA's own (``is_scheduled=true``); rates as in ``cost_models.rates``.
    """
    clock = Clock(OperationCost(hardware, rates_of(hardware), devices))
    clock.run(execution.items)
    messages = sorted(clock.messages.items(), key=lambda pair: -pair[1].exposed_s)
    parts = dict(clock.parts)
    for message, spent in messages:
        name = f"communication over {message.axis}"
        parts[name] = parts.get(name, 0.0) + spent.exposed_s
    return ExecutionTime(parts, tuple(MessageTime(one, spent.calls, spent.total_s, spent.exposed_s) for one, spent in messages))


@dataclass
class _Spent:
    calls: int = 0
    total_s: float = 0.0
    exposed_s: float = 0.0


@dataclass
class Clock:
    """A device's clock while its operations run. Source: the executable's schedule, as ``execution_time`` reads it."""

    cost: OperationCost
    now_s: float = 0.0
    link_free_s: float = 0.0
    """When the network has ended all collectives that were begun."""
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    messages: dict[Message, _Spent] = field(default_factory=dict)
    _ends: dict[int, tuple[Message, float]] = field(default_factory=dict)

    def run(self, items: Sequence[Item]) -> None:
        """Run the items; collectives that are still running at the end are waited for."""
        begun = set(self._ends)
        for item in items:
            match item:
                case Kernel():
                    self._work(NAMES[item.kind], self.cost.kernel_seconds(item))
                case Message():
                    self._send(item)
                case Done():
                    self._wait(item.number)
                case Loop():
                    self._loop(item)
                case Branch():
                    self._branch(item)
        for number in sorted(set(self._ends) - begun):
            self._wait(number)

    def _work(self, part: str, seconds: float) -> None:
        self.parts[part] += seconds
        self.now_s += seconds

    def _send(self, message: Message) -> None:
        key = message.model_copy(update={"number": None})
        seconds = self.cost.message_seconds(message)
        spent = self.messages.setdefault(key, _Spent())
        spent.calls, spent.total_s = spent.calls + 1, spent.total_s + seconds
        end = max(self.now_s, self.link_free_s) + seconds
        self.link_free_s = end
        if message.number is None or not self.cost.overlaps:
            self._until(key, end)
        else:
            self._ends[message.number] = (key, end)

    def _wait(self, number: int) -> None:
        if number in self._ends:
            self._until(*self._ends.pop(number))

    def _until(self, key: Message, end_s: float) -> None:
        self.messages[key].exposed_s += max(0.0, end_s - self.now_s)
        self.now_s = max(self.now_s, end_s)

    def _loop(self, loop: Loop) -> None:
        """Run a body twice: the first run, whose collectives may wait for earlier ones, and a later one for all the others."""
        self.run(loop.body)
        if loop.trips > 1:
            self._scaled(loop.body, float(loop.trips - 1))

    def _scaled(self, body: Sequence[Item], times: float) -> None:
        """Run a body once, and count its time ``times`` times."""
        before, parts, spent = (
            self.now_s,
            dict(self.parts),
            {key: (s.calls, s.total_s, s.exposed_s) for key, s in self.messages.items()},
        )
        self.run(body)
        extra = times - 1.0
        for name, seconds in list(self.parts.items()):
            self.parts[name] = seconds + extra * (seconds - parts.get(name, 0.0))
        for key, one in self.messages.items():
            calls, total, exposed = spent.get(key, (0, 0.0, 0.0))
            one.calls += round(extra * (one.calls - calls))
            one.total_s += extra * (one.total_s - total)
            one.exposed_s += extra * (one.exposed_s - exposed)
        gone = extra * (self.now_s - before)
        self.now_s += gone
        self.link_free_s += gone

    def _branch(self, branch: Branch) -> None:
        """Run the slowest body."""
        tried = []
        for body in branch.bodies:
            clock = Clock(self.cost)  # of this class alone: what a subclass keeps of it is not of the step
            clock.run(body)
            tried.append((clock.now_s, body))
        if tried:
            self.run(max(tried, key=lambda pair: pair[0])[1])
