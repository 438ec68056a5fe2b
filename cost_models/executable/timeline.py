"""Timeline of an executable: the work of each stream of a device, from the schedule and the priced durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cost_models.executable.kernels import OperationCost
from cost_models.executable.schedule import Clock
from cost_models.rates.published import rates_of
from lcplan.evidence.execution import Execution, Item, Message
from lcplan.spec.hardware import HardwareSpec

COMPUTE, NETWORK = "compute", "communication"
FINEST = 1000.0
"""Spans below this part of the step are drawn with their neighbours of the same stream."""


@dataclass(frozen=True)
class Span:
    """Operations of one stream that run one after another. ``start_s`` and ``end_s`` are seconds from the start of the step.

    Source: ``cost_models.executable.schedule``.
    """

    stream: str
    part: str
    start_s: float
    end_s: float
    runs: int = 1
    """Runs of a loop's body that the span covers."""


class _Drawing(Clock):
    """A clock that keeps the span of each operation."""

    def __init__(self, cost: OperationCost) -> None:
        super().__init__(cost)
        self.spans: list[Span] = []

    def _work(self, part: str, seconds: float) -> None:
        start = self.now_s
        super()._work(part, seconds)
        self.spans.append(Span(COMPUTE, part, start, self.now_s))

    def _send(self, message: Message) -> None:
        start = max(self.now_s, self.link_free_s)
        super()._send(message)
        self.spans.append(Span(NETWORK, f"{message.op} over {message.axis}", start, self.link_free_s))

    def _scaled(self, body: Sequence[Item], times: float) -> None:
        first, begin = len(self.spans), self.now_s
        super()._scaled(body, times)
        later = self.spans[first:]
        self.spans[first:] = [
            replace(
                one,
                start_s=begin + (one.start_s - begin) * times,
                end_s=begin + (one.end_s - begin) * times,
                runs=round(one.runs * times),
            )
            for one in later
        ]


def timeline(execution: Execution, hardware: HardwareSpec, *, devices: int) -> tuple[Span, ...]:
    """Return the work of the two streams of a device during a step.

    The first run of a loop's body is drawn as it is, and all later runs as one long run of it.

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
    tuple of Span
        Spans by stream and start [s]; neighbours of one part, and spans too short to see, are drawn as one.

    Notes
    -----
    Of a conditional the slowest branch is drawn. Source: ``cost_models.executable.schedule.execution_time``, whose clock it is.
    """
    clock = _Drawing(OperationCost(hardware, rates_of(hardware), devices))
    clock.run(execution.items)
    shortest = clock.now_s / FINEST
    return tuple(one for stream in (COMPUTE, NETWORK) for one in _merged(clock.spans, stream, shortest))


def _merged(spans: Sequence[Span], stream: str, shortest: float) -> list[Span]:
    """Join neighbours of one part, and spans below ``shortest`` with the span before them, whose part they take."""
    found: list[Span] = []
    for one in sorted((one for one in spans if one.stream == stream), key=lambda one: one.start_s):
        last = found[-1] if found else None
        near = last is not None and one.start_s - last.end_s < shortest
        short = last is not None and min(one.end_s - one.start_s, last.end_s - last.start_s) < shortest
        if last is not None and near and (one.part == last.part or short):
            longer = one if one.end_s - one.start_s > last.end_s - last.start_s else last
            found[-1] = replace(longer, start_s=last.start_s, end_s=max(last.end_s, one.end_s))
        else:
            found.append(one)
    return found
