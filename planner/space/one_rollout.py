"""One layout of a rollout, given by its mesh: fill in what the request leaves open and hold it against the rules."""

from __future__ import annotations

from lcplan.formats.errors import BadInputError
from lcplan.strategy import KNOBS, Mesh, Sampling, Strategy
from planner.request.filters import refuse_several
from planner.request.request import SearchRequest
from planner.rules.rollout import layout_problems, layouts_of
from planner.space.analysis import setting_of
from planner.space.reject import broken_rules


def resolve_rollout(request: SearchRequest, mesh: Mesh, backends: tuple[str, ...]) -> Strategy:
    """The one layout that the filters name; left open, fsdp's shards are gathered in each step and the cache is read whole.

    Raises
    ------
    BadInputError
        Several values for one knob, or broken rules (all of them).
    """
    filters = request.filters
    refuse_several(filters, KNOBS)
    default = layouts_of(mesh.fsdp, mesh.tensor)[-1]
    sampling = Sampling.model_validate(
        {"mesh": mesh, "parameters": (filters.parameters or (default,))[0], "cache": (filters.cache or ("whole",))[0]}
    )
    strategy = Strategy.model_validate(
        {
            "mesh": mesh,
            "backend": (filters.backend or backends)[0],
            "gather_dtype": (filters.gather_dtype or ("bf16",))[0],
            "sampling": sampling,
        }
    )
    broken = [*broken_rules(setting_of(request), strategy), *layout_problems(sampling)]
    if broken:
        raise BadInputError(broken)
    return strategy
