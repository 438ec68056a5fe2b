"""The best strategy that fits, without pricing the device counts that no strategy could win on."""

from __future__ import annotations

from collections.abc import Iterator

from planner.candidates.candidate import Candidate
from planner.candidates.ranking import objective_value
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.feasible import best_row
from planner.workloads.registry import planned

SHARE = 2
"""Each range of device counts ends at this part of the one before: half as many devices, a bound twice as large."""


def fastest_that_fits(ask: Ask) -> Candidate | None:
    """The strategy that a search of the request ranks first by the cost model; None if nothing fits.

    Device counts are priced from the most downwards. The search stops at counts on which the model's FLOPs take longer
    than the best step so far, whatever the strategy.
    """
    request, workload, setting = ask.request, planned(ask.request), setting_of(ask.request)
    best: Candidate | None = None
    for least, most in _ranges(ask):
        bounded = best is not None and request.objective != "tokens_per_s_per_device"
        if best is not None and bounded and workload.least_seconds(setting, most) > best.best.step_s:
            break
        table = workload.points(request, ask.backends, most_devices=most, least_devices=least)
        table = table.take(workload.need_bytes(setting, table) <= request.budget_bytes)
        estimates = workload.price(setting, table)
        row = best_row(table, estimates, objective=request.objective, fits=estimates.fits)
        if row is not None:
            found = Candidate(strategy=table.strategy(row), estimate=estimates.row(row))
            best = found if best is None or _value(found, ask) >= _value(best, ask) else best
    return best


def _value(candidate: Candidate, ask: Ask) -> float:
    """The objective's value; fewer devices win where it is equal, so that a later range replaces an earlier one."""
    return objective_value(candidate, ask.request.objective)


def _ranges(ask: Ask) -> Iterator[tuple[int, int]]:
    """Ranges of device counts, the largest counts first."""
    most = ask.most_devices
    if ask.request.devices is not None:
        yield 1, most
        return
    while most:
        yield most // SHARE + 1, most
        most //= SHARE
