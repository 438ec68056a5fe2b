"""From command line values to a request: catalogue look-ups, defaults, and every problem at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from planner.request.filters import KNOB_FILTERS, Filters, parse_mesh, wrong_values
from planner.request.request import SearchRequest, make_request
from planner.request.workload_options import WorkloadOptions, check_workload, workload_of

T = TypeVar("T")


class RequestOptions(WorkloadOptions):
    """What ``request_options`` and ``knob_options`` parse."""

    model: str | ModelSpec
    hw: str
    devices: int | None = None
    budget: int | None = None
    mesh: str | None = None
    scheme: tuple[str, ...] | None = None
    remat: tuple[str, ...] | None = None
    backend: tuple[str, ...] | None = None
    microbatches: tuple[int, ...] | None = None
    loss_chunk_tokens: tuple[int, ...] | None = None
    collective_matmul: tuple[str, ...] | None = None
    gather_dtype: tuple[str, ...] | None = None
    reduce_dtype: tuple[str, ...] | None = None
    moments_dtype: tuple[str, ...] | None = None
    sharding_mode: tuple[str, ...] | None = None
    scheduler: tuple[str, ...] | None = None
    ulysses: tuple[int, ...] | None = None
    bidirectional: tuple[str, ...] | None = None
    moe_dispatch: tuple[str, ...] | None = None
    moe_room_percent: tuple[int, ...] | None = None
    attention_block: tuple[int, ...] | None = None
    offload_percent: tuple[int, ...] | None = None
    parameters: tuple[str, ...] | None = None
    cache: tuple[str, ...] | None = None
    trainer: str | None = None


def build_request(options: RequestOptions, objective: str = "tokens_per_s") -> SearchRequest:
    """The request that the options ask for.

    Raises
    ------
    BadInputError
        With all problems that were found: an unknown model and an unknown hardware are two lines of one error.
    """
    from lcplan import catalog
    from planner.trainers import trainer
    from planner.trainers.common.restrict import restrict

    problems: list[str] = []
    _collect(problems, lambda: check_workload(options))
    named = options.model
    model = named if isinstance(named, ModelSpec) else _collect(problems, lambda: catalog.model(named))
    hardware = _collect(problems, lambda: catalog.hardware(options.hw))
    mesh = _collect(problems, lambda: parse_mesh(options.mesh) if options.mesh else {})
    knobs: dict[str, Any] = {name: getattr(options, name) for name in KNOB_FILTERS if getattr(options, name) is not None}
    problems += wrong_values(knobs)
    if problems or model is None or hardware is None or mesh is None:
        raise BadInputError(problems)
    filters = Filters(mesh=mesh, **knobs)
    if options.trainer is not None:
        filters = restrict(filters, trainer(options.trainer), hardware=hardware, model=model)
    return make_request(
        {
            "model": model,
            "hardware": hardware,
            "workload": workload_of(options, hardware, options.devices),
            "budget_bytes": options.budget or hardware.usable_bytes,
            "objective": objective,
            "devices": options.devices,
            "filters": filters,
            "trainer": options.trainer,
        }
    )


def _collect(problems: list[str], read: Callable[[], T]) -> T | None:
    try:
        return read()
    except BadInputError as error:
        problems.extend(error.problems)
        return None
