"""Lockstep schedules of a pipeline as tables: the work of every stage in every tick. numpy only.

In a tick each stage runs at most one forward pass and then at most one backward pass of a chunk, its share of the layers of a
virtual stage. The message of a chunk arrives for the next tick, so a stage that has nothing to do waits for nobody.
Virtual stage ``c pipe + s`` is chunk c of stage s. With several chunks microbatches come in groups of ``pipe``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lcplan.strategy import LATE_SCHEDULES, Strategy

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

IDLE = -1
"""The microbatch of a stage that has nothing to do."""


class Work(NamedTuple):
    """Passes in one direction, ``[ticks, pipe]`` each."""

    microbatch: Ints
    """``IDLE`` where a stage has nothing to do."""
    chunk: Ints
    slot: Ints
    """Place of the chunk's saved tensors; of an idle forward pass a place that is free."""

    @property
    def busy(self) -> Bools:
        """Passes that exist, shape ``[ticks, pipe]``."""
        return self.microbatch != IDLE

    def of_stage(self, stage: int, chunk: int) -> Bools:
        """Ticks in which a stage runs one of its chunks, shape ``[ticks]``."""
        return self.busy[:, stage] & (self.chunk[:, stage] == chunk)


class Phase(NamedTuple):
    """Ticks ``first`` to ``end`` in which some stage runs forward, some stage runs backward, or both."""

    first: int
    end: int
    forward: bool
    backward: bool


@dataclass(frozen=True)
class Ticks:
    """The schedule of one step."""

    pipe: int
    chunks: int
    microbatches: int
    late: bool
    """Whether backward passes begin after all forward passes."""

    @classmethod
    def of(cls, strategy: Strategy) -> Ticks:
        """The schedule of a strategy."""
        late = strategy.schedule in LATE_SCHEDULES
        return cls(strategy.mesh.pipe, strategy.virtual_stages, strategy.microbatches, late)

    @property
    def passes(self) -> int:
        """Forward passes of a stage, and as many backward passes: ``M v``."""
        return self.microbatches * self.chunks

    @property
    def start(self) -> int:
        """First tick with a backward pass: in which the last stage ends its first microbatch, or has ended all."""
        return self.passes + self.pipe - 1 if self.late else self.chunks * self.pipe - 1

    @property
    def ticks(self) -> int:
        """Ticks of a step."""
        return self.start + self.passes + self.pipe - 1

    @property
    def outputs(self) -> int:
        """Outputs of the last chunk that wait for their loss at the same time."""
        return self.microbatches if self.late else 1

    @cached_property
    def forward(self) -> Work:
        """Forward passes."""
        microbatch, chunk = self._order()
        return Work(microbatch, chunk, self._slots[0])

    @cached_property
    def backward(self) -> Work:
        """Backward passes: the mirror image, chunks and stages from the last to the first."""
        microbatch, chunk = self._mirrored()
        return Work(microbatch, chunk, self._slots[1])

    def _order(self) -> tuple[Ints, Ints]:
        """Microbatch and chunk of the forward pass of each tick and stage; stage s is s ticks behind the first."""
        number = np.arange(self.ticks)[:, None] - np.arange(self.pipe)
        return self._passes(number, np.arange(self.chunks))

    def _mirrored(self) -> tuple[Ints, Ints]:
        number = np.arange(self.ticks)[:, None] - self.start - (self.pipe - 1 - np.arange(self.pipe))
        return self._passes(number, np.arange(self.chunks)[::-1])

    def _passes(self, number: Ints, chunks: Ints) -> tuple[Ints, Ints]:
        """Microbatch and chunk of a stage's passes by number: ``pipe`` microbatches through each chunk in turn."""
        group, rest = np.divmod(number, self.pipe * self.chunks)
        busy = (number >= 0) & (number < self.passes)
        if self.chunks == 1:
            return np.where(busy, number, IDLE), np.zeros_like(number)
        return np.where(busy, group * self.pipe + rest % self.pipe, IDLE), np.where(busy, chunks[rest // self.pipe], 0)

    @cached_property
    def _slots(self) -> tuple[Ints, Ints]:
        """Slots of the forward and of the backward passes: each the lowest that is free."""
        (f_microbatch, f_chunk), (b_microbatch, b_chunk) = self._order(), self._mirrored()
        forward, backward = np.zeros_like(f_microbatch), np.zeros_like(b_microbatch)
        for stage in range(self.pipe):
            held: dict[tuple[int, int], int] = {}
            for tick in range(self.ticks):
                free = next(slot for slot in range(self.passes + 1) if slot not in held.values())
                forward[tick, stage] = free
                if f_microbatch[tick, stage] != IDLE:
                    held[f_microbatch[tick, stage], f_chunk[tick, stage]] = free
                if b_microbatch[tick, stage] != IDLE:
                    backward[tick, stage] = held.pop((b_microbatch[tick, stage], b_chunk[tick, stage]))
        return forward, backward

    @cached_property
    def slots(self) -> int:
        """Slots of every stage: the most chunks at the same time, and one more where a stage idles with all of them full."""
        runs = self.forward.busy.any(axis=1)
        return int(self.forward.slot[runs].max()) + 1

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Runs of ticks with the same directions."""
        kinds = np.stack([self.forward.busy.any(axis=1), self.backward.busy.any(axis=1)], axis=1)
        cuts = [0, *(np.nonzero((kinds[1:] != kinds[:-1]).any(axis=1))[0] + 1).tolist(), self.ticks]
        return tuple(Phase(a, b, *map(bool, kinds[a])) for a, b in itertools.pairwise(cuts))


def stored_order(strategy: Strategy, iterations: int) -> Ints:
    """Return the iterations of the model's layer loop as the state stacks them: by stage, by chunk, by place in the chunk.

    The state's stacked dim is split over ``pipe``, so a stage's iterations are neighbours. With one chunk the order is the
    model's own.
    """
    return np.arange(iterations).reshape(strategy.virtual_stages, strategy.mesh.pipe, -1).swapaxes(0, 1).reshape(-1)
