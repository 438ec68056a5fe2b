"""One strategy of a train step, given by its mesh: the open knobs are filled in, and the rules are checked."""

from __future__ import annotations

from collections.abc import Mapping

from lcplan.formats.errors import BadInputError
from lcplan.strategy import STEP_KNOBS, Mesh, Strategy
from planner.request.filters import AxisFilter, refuse_several
from planner.request.request import SearchRequest
from planner.rules import ALL_RULES
from planner.rules.windows import everywhere
from planner.space.analysis import setting_of
from planner.space.count import segment_choices
from planner.space.enumerate import Knobs, mesh_options
from planner.space.reject import broken_rules_of


class BrokenRulesError(BadInputError):
    """The strategy that was asked for breaks rules."""

    def __init__(self, problems: list[str], strategy: Strategy) -> None:
        super().__init__(problems)
        self.strategy = strategy


def resolve_step(request: SearchRequest, mesh: Mesh, *, backends: tuple[str, ...]) -> Strategy:
    """The one strategy of a train step on ``mesh`` that the filters name.

    Left open, the scheme is ring-zigzag where the sequence divides into its chunks and ring
    elsewhere and where every layer has a window, remat is ``full``, a device takes one sequence per microbatch, and the loss
    chunk is the largest of the grid, and a job on several domains uses the most devices of each that spread it evenly.

    Raises
    ------
    BadInputError
        Several values for one knob, or broken rules (all of them).
    """
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
        "segment": segment_choices(request, mesh.devices, mesh.tensor)[0],
    }
    plain = {name: values[0] for name, values in options.values}
    strategy = Strategy.model_validate({"mesh": mesh} | plain | own)
    broken = broken_rules_of(setting_of(request), strategy, rules=ALL_RULES)
    if broken:
        raise BrokenRulesError(broken, strategy)
    return strategy


def one_mesh(request: SearchRequest) -> Mesh:
    """The one mesh that the filters name; axes that are not named are 1.

    Raises
    ------
    BadInputError
        Several sizes for one axis, or a mesh that does not match ``--devices``.
    """
    mesh = named_mesh(request.filters.mesh, option="--mesh")
    if request.devices is not None and mesh.devices != request.devices:
        raise BadInputError(
            f"--mesh {mesh.label} takes {mesh.devices} devices, not --devices {request.devices}; change one of them"
        )
    return mesh


def named_mesh(filters: Mapping[str, AxisFilter], *, option: str) -> Mesh:
    """The one mesh that an option names; axes that are not named are 1.

    Raises
    ------
    BadInputError
        Several sizes for one axis.
    """
    several = [axis for axis, allowed in filters.items() if allowed.fixed is None]
    if several:
        raise BadInputError([f"{option} {axis}: estimate prices one strategy; give one size" for axis in several])
    return Mesh(**{axis: allowed.fixed or 1 for axis, allowed in filters.items()})
