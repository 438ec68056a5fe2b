"""min-devices: the fewest devices on which some strategy fits."""

from __future__ import annotations

from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.workloads.points import valid_points
from planner.workloads.pricing import need_bytes


def fewest_devices(ask: Ask) -> int | None:
    """The smallest device count, of all up to the limit, at which some strategy fits; None if nothing fits at any."""
    table = valid_points(ask.request, ask.backends, most_devices=ask.most_devices)
    if not len(table):
        return None
    counts = table.devices[need_bytes(setting_of(ask.request), table) <= ask.request.budget_bytes]
    return int(counts.min()) if len(counts) else None
