"""Dies as XLA does on a failed check: a fatal line on stderr, then SIGABRT."""

import os

from planner.measure.targets.ring_program import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec, mesh):
    line = b"F1127 10:00:00.000000    4242 layout.cc:99] Check failed: tiles.size() == 1 (2 vs. 1) no such layout\n"
    os.write(2, b"I1127 10:00:00.000000    4242 cudart_stub.cc:31] Could not find cuda drivers\n" + line)
    os.write(2, b"*** Check failure stack trace: ***\n    @     0x7f  absl::Fatal()\n")
    os.abort()
