"""Build a request from command line values: look up the catalogue, fill defaults, collect every problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click
from pydantic import model_validator

from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import KNOBS
from planner.request.filters import Filters, parse_mesh, wrong_values
from planner.request.knob_fields import with_knobs
from planner.request.request import Objective, SearchRequest, make_request
from planner.request.workload_options import WorkloadOptions, check_workload, workload_of

T = TypeVar("T")
objective_option = click.option(
    "--objective", type=click.Choice(get_args(Objective)), default="tokens_per_s", show_default=True, help="Figure to optimise."
)


@with_knobs
class RequestOptions(WorkloadOptions):
    """The values that ``request_options`` and ``knob_options`` parse."""

    model: str | ModelSpec
    hw: str | HardwareSpec
    devices: int | None = None
    budget: int | None = None
    mesh: str | None = None
    trainer: str | None = None
    trainer_jax: str = ""

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        """A knob that was left out has no values."""
        return {name: value for name, value in data.items() if name not in KNOBS or value is not None}


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
    place = options.hw
    hardware = place if isinstance(place, HardwareSpec) else _collect(problems, lambda: catalog.hardware(place))
    mesh = _collect(problems, lambda: parse_mesh(options.mesh) if options.mesh else {})
    own = options.rollout_mesh
    rollout_mesh = _collect(problems, lambda: parse_mesh(own, "--rollout-mesh") if own else {})
    knobs: dict[str, Any] = {name: getattr(options, name) for name in KNOBS}
    problems += wrong_values(knobs)
    if problems or model is None or hardware is None or mesh is None:
        raise BadInputError(problems)
    filters = Filters(mesh=mesh, rollout_mesh=rollout_mesh, **knobs)
    if options.trainer is not None:
        filters = restrict(filters, trainer(options.trainer), hardware=hardware, model=model, jax=options.trainer_jax)
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
            "trainer_jax": options.trainer_jax if options.trainer else "",
        }
    )


def _collect(problems: list[str], read: Callable[[], T]) -> T | None:
    try:
        return read()
    except BadInputError as error:
        problems.extend(error.problems)
        return None
