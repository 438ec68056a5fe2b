"""The tuner's history: trials in order, with the outcome of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from planner.report.terminal.tables import FittedTable, titled

SHOWN = 12


def tuning_view(history: Sequence[Mapping[str, Any]]) -> FittedTable:
    """The trials that improved or are on the front, and the last of the others; the run's result.json has all."""
    counts = Counter(str(one["outcome"]) for one in history)
    title = f"Tuning: {len(history)} trials: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    title += "; * on the front of step time, memory and devices" * any(one.get("pareto") for one in history)
    table = titled(title)
    for name in ("trial", "got to", "outcome", "strategy and details"):
        table.add_column(name)
    for one in _shown(history):
        outcome = str(one["outcome"]) + " *" * bool(one.get("pareto"))
        table.add_row(str(one["number"]), str(one["rung"]), outcome, f"{one['strategy']}: {one['says']}")
    return table


def _shown(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return in order the trials that improved or are on the front, and as many of the last others as the table takes."""
    told = [one for one in history if one["outcome"] == "improved" or one.get("pareto")]
    others = [one for one in history if one not in told]
    room = max(0, SHOWN - len(told))
    return sorted([*told, *(others[-room:] if room else [])], key=lambda one: int(one["number"]))
