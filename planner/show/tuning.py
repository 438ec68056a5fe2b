"""The tuner's history: trials in order, with what came of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

SHOWN = 12


def tuning_view(history: Sequence[Mapping[str, Any]]) -> Table:
    """What improved, and the last of the others; the run's result.json has all."""
    counts = Counter(str(one["outcome"]) for one in history)
    title = f"Tuning: {len(history)} trials: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for name in ("trial", "got to", "outcome", "strategy and what came of it"):
        table.add_column(name)
    improved = [one for one in history if one["outcome"] == "improved"]
    others = [one for one in history if one["outcome"] != "improved"][-max(0, SHOWN - len(improved)) :]
    for one in sorted([*improved, *others], key=lambda one: int(one["number"])):
        table.add_row(str(one["number"]), str(one["rung"]), str(one["outcome"]), f"{one['strategy']}: {one['says']}")
    return table
