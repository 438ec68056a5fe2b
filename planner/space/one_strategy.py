"""One strategy, given by its mesh: fill in what the request leaves open, hold it against the rules, price it."""

from __future__ import annotations

from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import AXES, STEP_KNOBS, Mesh, Strategy
from planner.candidates.candidate import Candidate
from planner.candidates.pricing import price_table, table_of
from planner.request.filters import refuse_several
from planner.request.request import SearchRequest
from planner.rules.windows import everywhere
from planner.space.analysis import setting_of
from planner.space.enumerate import Knobs, mesh_options
from planner.space.one_rollout import resolve_rollout
from planner.space.reject import broken_rules
from planner.space.rl_iteration import train_request, with_rollout


class BrokenRulesError(BadInputError):
    """The strategy that was asked for breaks rules."""

    def __init__(self, problems: list[str], strategy: Strategy) -> None:
        super().__init__(problems)
        self.strategy = strategy


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
    """The one strategy that the filters name.

    Axes that are not named are 1. Left open, the scheme is ring-zigzag where the sequence divides into its chunks and ring
    elsewhere and where every layer has a window, remat is ``full``, a device takes one sequence a microbatch, and the loss
    chunk is the largest of the grid.

    Raises
    ------
    BadInputError
        Several values for one axis or knob, a mesh that does not match ``--devices``, or broken rules (all of them).
    """
    mesh = _one_mesh(request)
    if isinstance(request.workload, RlWorkload):
        return with_rollout(request, resolve_strategy(train_request(request), backends))
    if request.workload.kind == "sample":
        return resolve_rollout(request, mesh, backends)
    filters = request.filters
    refuse_several(filters, STEP_KNOBS)
    knobs = Knobs.of(filters, backends, kind=request.hardware.kind)
    options = mesh_options(request, knobs, mesh.sizes)
    even = request.workload.seq_len % (2 * mesh.context) == 0 and not everywhere(request.model, request.workload.seq_len)
    scheme = (filters.scheme or ("ring-zigzag" if even else "ring",))[0]
    sizes = [size for name, size, _ in options.ways if name == scheme]
    own = {
        "scheme": scheme,
        "ulysses": (filters.ulysses or (sizes[-1] if sizes else 1,))[0],
        "bidirectional": knobs["bidirectional"][0],
        "remat": (filters.remat or ("full",))[0],
        "microbatches": options["microbatches"][-1],
        "loss_chunk_tokens": options["loss_chunk_tokens"][-1],
    }
    plain = {name: values[0] for name, values in options.values}
    strategy = Strategy.model_validate({"mesh": mesh} | plain | own)
    broken = broken_rules(setting_of(request), strategy)
    if broken:
        raise BrokenRulesError(broken, strategy)
    return strategy


def _one_mesh(request: SearchRequest) -> Mesh:
    sizes: dict[str, int] = {}
    problems: list[str] = []
    for axis in AXES:
        allowed = request.filters.mesh.get(axis)
        if allowed is not None and allowed.fixed is None:
            problems.append(f"--mesh {axis}: estimate prices one strategy; give one size")
        sizes[axis] = (allowed.fixed if allowed is not None else None) or 1
    if problems:
        raise BadInputError(problems)
    mesh = Mesh(**sizes)
    if request.devices is not None and mesh.devices != request.devices:
        raise BadInputError(
            f"--mesh {mesh.label} takes {mesh.devices} devices, not --devices {request.devices}; change one of them"
        )
    return mesh


def price(request: SearchRequest, strategy: Strategy) -> Candidate:
    """The strategy with the laws' estimate."""
    return Candidate(strategy=strategy, estimate=price_table(setting_of(request), table_of([strategy])).row(0))
