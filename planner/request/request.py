"""SearchRequest: everything that a search was asked, validated, before any of it is tried."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from cost_models.inputs.program import STEP, Program
from cost_models.rates.published import inherited_rates
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.units import format_bytes, format_tokens
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import DEFAULT_KIND, AnyWorkload, RlWorkload
from lcplan.spec.workload import DEFAULT_TOKENS_PER_DEVICE, DEFAULT_TOKENS_PER_STEP
from lcplan.strategy import AXIS_RECORDS, AxisName
from lcplan.strategy.remat import REMAT_POLICIES
from planner.request.filters import Filters

Objective = Literal["tokens_per_s", "tokens_per_s_per_device", "step_s"]
Stage = Literal["modelled", "compiled", "timed"]


class SearchRequest(Frozen):
    """A question. ``devices`` None: every count up to the hardware's size."""

    model: ModelSpec
    hardware: HardwareSpec
    workload: AnyWorkload
    budget_bytes: Annotated[int, Field(gt=0)]
    objective: Objective = "tokens_per_s"
    devices: Annotated[int, Field(gt=0)] | None = None
    filters: Filters = Filters()
    trainer: str | None = None
    """Only strategies that this trainer runs as they are (``planner.trainers.trainer_names``)."""
    trainer_jax: str = ""
    """The jax that the trainer runs under; empty: the one that its version was verified with."""
    program: Program = Field(default=STEP, exclude=True)
    """The program that the cost model prices: an imported file's trainer's, else lcplan's own. Not part of a search."""

    @model_serializer(mode="wrap")
    def _without_empty_jax(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields; ``trainer_jax`` only where it is stated, so that other requests keep their identity."""
        fields: dict[str, Any] = handler(self)
        return fields if self.trainer_jax else {name: value for name, value in fields.items() if name != "trainer_jax"}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.devices is not None and self.devices > self.hardware.devices:
            raise ValueError(
                f"devices={self.devices} is more than the {self.hardware.devices} of {self.hardware.name}; "
                f"ask for at most {self.hardware.devices}, or for more domains: "
                f"--hw {self.hardware.enlarged_for(self.devices)}"
            )
        if "pipe" in self.filters.mesh and isinstance(self.workload, RlWorkload):
            raise ValueError("pipe: the scoring and the rollout of workload rl have all layers on each device; leave pipe out")
        if self.model.not_planned:
            raise ValueError(
                f"{self.model.name} is counted, not planned; lcplan's step does not support: "
                f"{', '.join(self.model.not_planned)}; "
                f"its parameters are in `lcplan catalog models {self.model.name}`"
            )
        return self

    @property
    def not_built(self) -> tuple[str, ...]:
        """Features of the model, and of the strategies that are asked for, that no step computes; empty: it can be compiled."""
        folded: tuple[int, ...] = self.filters.expert_fold
        return (*self.model.not_built, *(("folded expert ranks",) if max(folded, default=1) > 1 else ()))

    @property
    def optional_axes(self) -> tuple[AxisName, ...]:
        """Axes that most meshes lack and meshes of this request may have: its model's experts, and those of its filters."""
        of_model = {"expert"} if self.model.experts is not None else set()
        return tuple(name for name, axis in AXIS_RECORDS.items() if axis.optional and name in of_model | {*self.filters.mesh})

    @property
    def identity(self) -> dict[str, Any]:
        """The facts that make two requests the same question (effort, such as survivors or jobs, is not part of it)."""
        return self.model_dump(mode="json")

    @property
    def slug(self) -> str:
        """A folder name: a short description of the request, and eight digits of its hash."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]
        kind = [self.workload.kind] if self.workload.kind != DEFAULT_KIND else []
        parts = [self.model.name, *kind, format_tokens(self.workload.seq_len), self.hardware.name]
        if self.devices is not None:
            parts.append(f"{self.devices}devices")
        return "-".join("".join(c if c.isalnum() or c in ".-" else "_" for c in part) for part in [*parts, digest])

    @property
    def untimed_offload(self) -> bool:
        """Whether the request asks only for strategies that offload, on a device whose link to its host is unknown."""
        asked, device = self.filters.remat or (), self.hardware.device
        offload = bool(asked) and all(REMAT_POLICIES[name].offloaded for name in asked)
        return offload and self.hardware.kind != "cpu" and device.host_oneway_bytes_per_s is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes on the request itself for the reader."""
        found = [f"{self.model.name}: {note}" for note in self.model.notes]
        scaled = inherited_rates(self.hardware)
        if scaled:
            found.append(f"{self.hardware.name}: rates measured on another device of this name are scaled ({scaled})")
        allowance = self.hardware.allowance
        borrowed = [name for name in type(allowance).model_fields if getattr(allowance, name).kind == "stand-in"]
        if borrowed:
            found.append(
                f"{self.hardware.name}: {' and '.join(borrowed)} of the allowance are stand-ins from other devices, since no "
                "figure of this one is published; the allowance counts against the budget"
            )
        if self.untimed_offload:
            found.append(
                f"no bandwidth of {self.hardware.device.name}'s link to its host is known: memory has the offloaded tensors, "
                "and the step time has no transfer of them; state host_oneway_bytes_per_s in a hardware spec of your own"
            )
        limit = self.model.max_position
        if limit is not None and self.workload.seq_len > limit:
            found.append(
                f"{self.model.name} was trained on positions up to {format_tokens(limit)}; at "
                f"{format_tokens(self.workload.seq_len)} "
                "its RoPE must be extended (memory and time do not change)"
            )
        if self.budget_bytes > self.hardware.device.hbm_bytes.value:
            found.append(
                f"the budget of {format_bytes(self.budget_bytes)} is above the "
                f"{format_bytes(self.hardware.device.hbm_bytes.value)} "
                f"of one {self.hardware.device.name}"
            )
        if len(self.not_built) > len(self.model.not_built):
            found.append("folded expert ranks are priced, not compiled: lcplan's own step has the expert axis")
        return tuple(found)


def default_global_batch(seq_len: int, hardware: HardwareSpec, devices: int | None = None) -> int:
    """Sequences per step where the request gives no batch: ``default_tokens`` rounded down, at least one sequence.

    On ``cpu-host`` one sequence per device, since a host can't step through millions of tokens.
    """
    if hardware.kind == "cpu":
        return devices or hardware.devices
    return max(1, default_tokens(hardware, devices) // seq_len)


def default_tokens(hardware: HardwareSpec, devices: int | None = None) -> int:
    """Tokens per step where the request gives no batch: 16k per device, at least 4 Mi.

    >>> default_tokens(HardwareSpec.model_construct(domain_size=72, domains=2)) == 4 * 2**20
    True
    """
    return max(DEFAULT_TOKENS_PER_STEP, DEFAULT_TOKENS_PER_DEVICE * (devices or hardware.devices))


def make_request(data: dict[str, Any]) -> SearchRequest:
    """Build a request from parsed command line values; all problems at once.

    Raises
    ------
    BadInputError
        With the rule that the request breaks.
    """
    from pydantic import ValidationError

    try:
        return SearchRequest.model_validate(data)
    except ValidationError as error:
        raise BadInputError([_line(problem) for problem in error.errors()]) from None


def _line(problem: Any) -> str:
    """One problem: a sentence of ours, or pydantic's with the field and the value that it is about."""
    if problem["type"] == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']} (got {problem['input']!r:.40})"
