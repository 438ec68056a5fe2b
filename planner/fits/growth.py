"""The growth of a footprint over another one: memory by part, buffers, collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lcplan.formats.units import MIB, format_bytes
from planner.fits.footprint import PARTS, Footprint, merged

SMALL_BYTES = MIB
"""Growth of bytes moved over an axis that a gate ignores: scalars and metrics move a few bytes."""
MOST_LINES = 6


@dataclass(frozen=True)
class Growth:
    """Two footprints of one step. ``tolerance`` is the growth that passes, as a ratio."""

    before: Footprint
    after: Footprint
    tolerance: float

    @property
    def failures(self) -> tuple[str, ...]:
        """Growth above the tolerance: of the memory, and of the bytes that move over an axis."""
        return (*self._memory(), *self._moved())

    @property
    def details(self) -> tuple[str, ...]:
        """The parts, buffers and collectives that differ; they explain growth and do not fail the gate by themselves."""
        return (*self._parts(), *self._buffers(), *self._collectives(), *self._kernels())

    def to_json(self) -> dict[str, Any]:
        """Return the comparison's document."""
        shown = {"subject": self.before.subject, "jax": self.before.jax, "total_bytes": self.before.total_bytes}
        ratio = self.after.total_bytes / max(1, self.before.total_bytes) - 1.0
        return {
            "baseline": shown,
            "jax": self.after.jax,
            "tolerance_ratio": self.tolerance,
            "memory_growth_ratio": ratio,
            "failures": list(self.failures),
            "details": list(self.details),
        }

    def _memory(self) -> Iterator[str]:
        was, now = self.before.total_bytes, self.after.total_bytes
        if now > was * (1.0 + self.tolerance):
            yield (
                f"memory grew by {now / max(1, was) - 1.0:.1%}, from {format_bytes(was)} to {format_bytes(now)};"
                f" {self.tolerance:.1%} is allowed"
            )

    def _moved(self) -> Iterator[str]:
        """Axes whose growth is above the tolerance of all bytes that move.

        Another version of XLA may split a redistribution in another way, so that some of its bytes go over other axes.
        """
        was, now = self.before.moved_by_axis, self.after.moved_by_axis
        allowed = max(SMALL_BYTES, self.tolerance * sum(was.values()))
        for axis in sorted(was.keys() | now.keys()):
            old, new = was.get(axis, 0), now.get(axis, 0)
            if new - old > allowed:
                yield f"collectives over {axis} move {format_bytes(new)} per step, before {format_bytes(old)}"

    def _parts(self) -> Iterator[str]:
        for part in PARTS:
            was, now = (getattr(one, f"{part}_bytes") for one in (self.before, self.after))
            if was != now:
                name = "donated" if part == "alias" else part
                change = f"{'+' if now > was else '-'}{format_bytes(abs(now - was))}"
                yield f"{name}: {format_bytes(was)} -> {format_bytes(now)} ({change})"

    def _buffers(self) -> Iterator[str]:
        """Large buffers of the peak that are new, the largest first."""
        known = Counter((one.shape, one.bytes) for one in self.before.buffers)
        fresh = []
        for one in self.after.buffers:
            key = (one.shape, one.bytes)
            if known[key]:
                known[key] -= 1
            elif one.bytes >= SMALL_BYTES and self.before.buffers:
                fresh.append(one)
        for one in fresh[:MOST_LINES]:
            place = f" at {one.line}" if one.line else ""
            yield f"new at the peak: {one.shape} of {format_bytes(one.bytes)}{place} ({one.operation[-80:]})"

    def _collectives(self) -> Iterator[str]:
        was, now = merged(self.before.collectives), merged(self.after.collectives)
        changed = [
            (key, was.get(key, 0), now.get(key, 0)) for key in was.keys() | now.keys() if was.get(key, 0) != now.get(key, 0)
        ]
        changed.sort(key=lambda one: -abs(one[2] - one[1]) * one[0][2])
        for (op, axis, size), old, new in changed[:MOST_LINES]:
            yield f"{op} over {axis} of {format_bytes(size)}: {old} calls -> {new}"
        if len(changed) > MOST_LINES:
            yield f"and {len(changed) - MOST_LINES} more kinds of collectives"

    def _kernels(self) -> Iterator[str]:
        if self.before.kernels != self.after.kernels:
            yield f"attention kernels: {', '.join(self.before.kernels)} -> {', '.join(self.after.kernels)}"
