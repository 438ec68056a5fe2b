"""The one strategy that a request names, whichever kind of workload it asks about."""

from __future__ import annotations

from lcplan.strategy import Strategy
from planner.request.request import SearchRequest
from planner.space.one_strategy import one_mesh
from planner.workloads.registry import planned


def resolve_strategies(request: SearchRequest, backends: tuple[str, ...]) -> tuple[Strategy, ...]:
    """The one strategy that the filters name, in every sharding mode and under every scheduler preset that they name.

    Raises
    ------
    BadInputError
        As ``resolve_strategy``.
    """
    filters = request.filters
    modes, schedulers = filters.sharding_mode or ("manual",), filters.scheduler or ("default",)
    first = filters.model_copy(update={"sharding_mode": modes[:1], "scheduler": schedulers[:1]})
    base = resolve_strategy(request.model_copy(update={"filters": first}), backends)
    fields = [{"sharding_mode": mode, "scheduler": scheduler} for mode in modes for scheduler in schedulers]
    return tuple(dict.fromkeys(Strategy.model_validate(base.model_dump() | own) for own in fields))


def resolve_strategy(request: SearchRequest, backends: tuple[str, ...]) -> Strategy:
    """The one strategy that the filters name; axes that are not named are 1.

    Raises
    ------
    BadInputError
        Several values for one axis or knob, a mesh that does not match ``--devices``, or broken rules (all of them).
    """
    return planned(request).resolve(request, one_mesh(request), backends=backends)
