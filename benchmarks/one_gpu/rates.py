"""What ``lcplan calibrate`` says of the card."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from one_gpu.card import Card
from planner.calibrate.overlay import overlay
from planner.calibrate.run import calibrate
from planner.measure.targets.toolchain import probe

ONLY = ("gemm", "attention", "copy", "host")
"""One device has no collectives to measure; tiny shapes leave them out too."""


def ids(card: Card) -> list[str]:
    """One calibration."""
    return [card.hardware]


def run(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """The overlay as ``--hw FILE`` reads it, and what was warned of."""
    for name in wanted:
        begun = time.perf_counter()
        found = calibrate(name, probe(), finished=lambda number, total: None, kinds=ONLY)
        data = overlay(found.base, found.findings, where=found.where)
        seconds = time.perf_counter() - begun
        yield {"id": name, "seconds": seconds, "overlay": data, "warnings": list(found.findings.warnings)}
