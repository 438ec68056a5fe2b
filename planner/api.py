"""The commands' questions as functions for notebooks and scripts, with frozen values in and out.

``lcplan.search(model="llama3-8b", seq="256k", hw="gb200-nvl72")`` asks the command line's question, with the same names
and defaults. Nothing is printed, and no file is written unless ``out`` names a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.suggest import hint
from lcplan.formats.units import parse_bytes, parse_tokens
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import DEFAULT_KIND, WORKLOAD_TYPES
from lcplan.strategy import KNOBS, renamed
from planner.candidates.candidate import Candidate
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.pool import PoolLimits
from planner.report.notebook import Answered, Found
from planner.request.document import SCHEMA_VERSION, request_json
from planner.request.filters import Filters, parse_mesh, sizes_text, wrong_values
from planner.request.knob_fields import with_knobs
from planner.request.request import Objective, SearchRequest, Stage, make_request
from planner.request.workload_options import WorkloadOptions, check_workload, workload_of
from planner.run.make_plan import make_plan
from planner.run.measuring import Bench
from planner.run.run_folder import RunFolder
from planner.run.stages import Effort
from planner.run.stages import search as run_stages
from planner.run.toolchain_offer import offer
from planner.what_if.question import placeholder_batch, what_if
from planner.what_if.result import Question, WhatIf
from planner.what_if.vary import parse_vary
from planner.workloads.one_strategy import resolve_strategy
from planner.workloads.pricing import price

F = TypeVar("F", bound=Callable[..., Any])


@with_knobs
class _Given(WorkloadOptions):
    """Every option of a question and its values, checked: text is read as on the command line.

    ``model`` and ``hw`` are names, paths or specs; ``seq`` tokens or ``"256k"``; ``budget`` bytes or ``"80GiB"``; ``mesh``
    sizes by axis or ``"context=8..32"``; knobs one value or several.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    model: str | ModelSpec
    hw: str | HardwareSpec
    devices: int | None = None
    budget: int | None = None
    objective: Objective = "tokens_per_s"
    mesh: str | None = None
    """Also sizes by axis: ``{"context": 8, "tensor": (1, 2)}``."""
    toolchain: str | None = None

    @field_validator("seq", "document_len", "prompt", "generate", mode="before")
    @classmethod
    def _tokens(cls, value: Any, info: ValidationInfo) -> Any:
        return parse_tokens(value, info.field_name or "tokens") if isinstance(value, str) else value

    @field_validator("mesh", "rollout_mesh", mode="before")
    @classmethod
    def _sizes(cls, value: Any) -> Any:
        """Return sizes by axis as the command line writes them."""
        return sizes_text(value) if isinstance(value, Mapping) else value

    @field_validator("budget", mode="before")
    @classmethod
    def _bytes(cls, value: Any) -> Any:
        return parse_bytes(value, "budget") if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _several(cls, data: dict[str, Any]) -> dict[str, Any]:
        """One value of a knob is a list of one."""
        return {name: (value,) if name in KNOBS and isinstance(value, str | int) else value for name, value in data.items()}

    def request(self) -> SearchRequest:
        """The request that the command line would make of the same words."""
        check_workload(self)
        model = self.model if isinstance(self.model, ModelSpec) else catalog.model(self.model)
        hardware = self.hw if isinstance(self.hw, HardwareSpec) else catalog.hardware(self.hw)
        knobs = {name: getattr(self, name) for name in KNOBS}
        if problems := wrong_values(knobs):
            raise BadInputError(problems)
        return make_request(
            {
                "model": model,
                "hardware": hardware,
                "workload": workload_of(self, hardware, self.devices),
                "budget_bytes": self.budget or hardware.usable_bytes,
                "objective": self.objective,
                "devices": self.devices,
                "filters": Filters(
                    mesh=parse_mesh(self.mesh) if self.mesh else {},
                    rollout_mesh=parse_mesh(self.rollout_mesh, "rollout_mesh") if self.rollout_mesh else {},
                    **knobs,
                ),
            }
        )


_OTHER_NAMES = {"workload": "kind", "donate": "no_donate"}
"""Options by the names that they have where they are checked."""
_SHOWN_NAMES = {checked: name for name, checked in _OTHER_NAMES.items()}
OPTIONS: tuple[str, ...] = tuple(_SHOWN_NAMES.get(name, name) for name in _Given.model_fields)
"""Names of the options that every question takes. ``model`` and ``hw`` are needed, and ``seq`` except for max-seq."""


def _with_options(question: F) -> F:
    """List every option in the signature of a question, for ``help`` and for editors."""
    shown = signature(question)
    own = [one for one in shown.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS]
    question.__signature__ = shown.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return question


class Estimated(Frozen):
    """One priced strategy with the request that it was priced for."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    request: SearchRequest
    candidate: Candidate

    def __repr__(self) -> str:
        """Return the strategy with its figures in one line."""
        from planner.report.view.performance import short

        return f"<{short(self.candidate, self.request)}>"

    def _repr_html_(self) -> str:
        from planner.report.notebook import as_html
        from planner.report.terminal.estimate import estimate_view

        return as_html(estimate_view(self.candidate, self.request, self.request.warnings))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``lcplan estimate``."""
        return {"schema_version": SCHEMA_VERSION, "request": request_json(self.request), "candidate": self.candidate.to_json()}


class _Silent:
    """A watcher for callers who watch nothing."""

    def stage(self, name: Stage, total: int) -> None:
        """Do nothing."""

    def finished(self, candidate: Candidate) -> None:
        """Do nothing."""


@_with_options
def search(*, stages: Stage = "modelled", survivors: int = 8, out: str | None = None, **options: Any) -> Found:
    """Find the best strategy. ``out``: also keep the study, ``result.json`` and ``plan.yaml`` there, as the command does.

    Raises
    ------
    BadInputError
        The options cannot be understood; the error lists every problem.
    """
    given = _read(options)
    request, toolchain = given.request(), probe(given.toolchain)
    folder = RunFolder.open(out, request) if out else None
    limits = PoolLimits(jobs=1, executables=folder.executables if folder and stages == "timed" else None)
    bench = Bench(request, toolchain, limits, _store(folder, stages=stages))
    result = run_stages(bench, Effort(stages, survivors), _Silent())
    if folder is not None:
        folder.save(result.to_json(), make_plan(request, result.winner, toolchain) if result.winner else None)
    return Found.of(result)


def _store(folder: RunFolder | None, *, stages: Stage) -> Any:
    if folder is None or stages == "modelled":
        return None
    from planner.study import Store

    return Store.open(folder.study_url)


@_with_options
def estimate(*, compiled: bool = False, **options: Any) -> Estimated:
    """Price the one strategy that ``mesh`` and the knobs name; ``compiled``: also for the target, with its own compiler."""
    given = _read(options)
    request, toolchain = given.request(), probe(given.toolchain)
    candidate = price(request, resolve_strategy(request, offer(toolchain, request).backends))
    if compiled:
        candidate = next(Bench(request, toolchain, PoolLimits(jobs=1)).compile([candidate]))
    return Estimated(request=request, candidate=candidate)


@_with_options
def whatif(question: Question, *, vary: str | tuple[str, ...] = (), compiled: bool = False, **options: Any) -> Answered:
    """``max-seq``, ``min-devices``, ``max-batch`` or ``sweep``; ``vary`` as on the command line, ``"seq=64k..1m"``."""
    open_length = question == "max-seq" or _varies_length(vary)
    options = {"seq": options.get("document_len", 128), **options} if open_length else options
    kind = options.get("workload", DEFAULT_KIND)
    if kind in WORKLOAD_TYPES:
        options |= placeholder_batch(question, kind, options)
    given = _read(options)
    request, toolchain = given.request(), probe(given.toolchain)
    texts = (vary,) if isinstance(vary, str) else tuple(vary)
    found = what_if(request, question, backends=offer(toolchain, request).backends, varied=parse_vary(texts))
    return Answered.of(_confirmed(found, toolchain) if compiled else found)


def _varies_length(vary: str | tuple[str, ...]) -> bool:
    return any(text.partition("=")[0].strip() == "seq" for text in ((vary,) if isinstance(vary, str) else vary))


def _confirmed(found: WhatIf, toolchain: Toolchain) -> WhatIf:
    from planner.what_if.confirm import confirm

    def measure(request: SearchRequest, candidate: Candidate) -> Candidate:
        return next(Bench(request, toolchain, PoolLimits(jobs=1)).compile([candidate]))

    return confirm(found, measure)


def _read(options: dict[str, Any]) -> _Given:
    options = {_OTHER_NAMES.get(name, name): value for name, value in renamed(options).items()}
    if "no_donate" in options:
        options["no_donate"] = not options["no_donate"]
    kind = WORKLOAD_TYPES.get(options.get("kind", DEFAULT_KIND), WORKLOAD_TYPES[DEFAULT_KIND])
    needed = ("model", "hw", *(name for name in kind.facts.needs if name == "seq"))
    missing = [name for name in needed if name not in options]
    if missing:
        raise BadInputError([f"{name}= is needed" for name in missing])
    unknown = [name for name in options if name not in _Given.model_fields]
    if unknown:
        raise BadInputError([f"unknown option {name!r}{hint(name, OPTIONS)}" for name in unknown])
    try:
        return _Given.model_validate(dict(options))
    except ValidationError as error:
        raise BadInputError([f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]) from None


__all__ = ["OPTIONS", "Estimated", "estimate", "search", "whatif"]
