"""Trial: a file with some of its settings changed, read again by its own importer, priced and judged as the file itself is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lcplan.formats.errors import BadInputError
from lcplan.strategy import STEP_KNOBS, Strategy
from planner.candidates.candidate import Candidate
from planner.imports.step import as_run, placed
from planner.request.filters import Filters, parse_mesh
from planner.request.request import SearchRequest
from planner.trainers import trainer
from planner.trainers.changes.interface import Form, Settings
from planner.trainers.common.imported import Imported
from planner.trainers.common.interface import Job
from planner.workloads.one_strategy import resolve_strategies
from planner.workloads.pricing import price

SCRIPT_KNOBS = ("remat", "microbatches", "loss_chunk_tokens")
"""Knobs that a file may leave to the training script."""


class Verdict(Protocol):
    """The parts of an opinion that decide about a change."""

    @property
    def fits(self) -> bool:
        """Whether it runs: the devices and the host hold it, and the trainer does not refuse it."""

    @property
    def refusals(self) -> tuple[str, ...]:
        """Rules of the trainer that it breaks."""

    @property
    def memory_bytes(self) -> int:
        """Modelled memory plus the bytes counted by hand."""

    @property
    def allowance_bytes(self) -> int:
        """Memory of runtime, communicators and PyTorch's pool on top of it."""

    @property
    def imported(self) -> Imported:
        """The file that was read."""

    @property
    def host_holds(self) -> bool:
        """Whether a host's memory holds its part."""


Judge = Callable[[Imported, SearchRequest, Candidate], Verdict]


@dataclass(frozen=True)
class Question:
    """The imported file, as it is priced."""

    request: SearchRequest
    imported: Imported
    current: Candidate
    fits: bool
    judge: Judge
    form: Form

    @property
    def job(self) -> Job:
        """The file's own job."""
        return self.job_of(self.current.strategy)

    def job_of(self, strategy: Strategy) -> Job:
        """The same workload under another strategy."""
        return Job(self.request.model, self.request.hardware, self.request.workload, strategy)  # type: ignore[arg-type]

    @property
    def given(self) -> dict[str, tuple[Any, ...]]:
        """Knobs that the command line states in addition to the file."""
        own = {name: tuple(getattr(self.request.filters, name)) for name in STEP_KNOBS if name not in self.imported.options}
        whole = self.imported.program.loss == "whole"
        return {name: values for name, values in own.items() if values and not (whole and name == "loss_chunk_tokens")}


@dataclass(frozen=True)
class Setup:
    """The file with switches on, read again; its strategy is still open."""

    settings: Settings
    options: Mapping[str, Any]
    imported: Imported
    knobs: Mapping[str, tuple[Any, ...]]
    """Knobs that the file or the command line states."""
    request: SearchRequest
    """The request with the priced step of this file."""
    moves: bool = False
    """Whether a switch sends state to the host."""


@dataclass(frozen=True)
class Trial:
    """A changed file with its verdict."""

    settings: Settings
    options: Mapping[str, Any]
    candidate: Candidate
    verdict: Verdict
    moves: bool = False
    """Whether it sends state to the host that the file leaves on the device."""

    @property
    def step_s(self) -> float:
        """Modelled time of a step [s]."""
        return float(self.candidate.estimate["step_s"])


def read_again(question: Question, settings: Settings, options: Mapping[str, Any]) -> Setup | None:
    """Read the file with settings changed; None where its importer refuses them, or they change the job."""
    imported = question.imported
    if settings:
        assert imported.again is not None, "a file whose settings lcplan changes"
        try:
            imported = imported.again(settings)
        except BadInputError:
            return None
    said = imported.options
    workload, devices = question.request.workload, question.current.strategy.devices
    same = {"seq": workload.seq_len, "global_batch": workload.global_batch, "devices": devices}
    if any(said.get(name, value) != value for name, value in same.items()):
        return None
    knobs = {name: value for name, (value, _) in imported.defaults.items() if name in STEP_KNOBS} | question.given
    knobs |= {name: tuple(values) for name, values in said.items() if name in STEP_KNOBS and values}
    knobs |= dict(options)
    torch = imported.program.runtime == "torch"
    chunked = "loss_chunk_tokens" in knobs or not (torch or trainer(imported.trainer).whole_loss)
    program = imported.program.model_copy(update={"loss": "chunked" if chunked else "whole"})
    imported = replace(imported, program=program) if torch or not chunked else imported
    return Setup(settings, options, imported, knobs, as_run(question.request, imported))


def tried(question: Question, setup: Setup) -> Trial | None:
    """Price and judge the one strategy of a file; None where rules of lcplan refuse it."""
    mesh = setup.imported.options["mesh"]
    knobs = dict(setup.knobs)
    if setup.imported.program.loss == "whole":
        sizes = parse_mesh(mesh)
        knobs["loss_chunk_tokens"] = (max(1, question.request.workload.seq_len // (sizes["context"].fixed or 1)),)
    filters = Filters.model_validate({"mesh": parse_mesh(mesh), **knobs})
    request = setup.request.model_copy(update={"filters": filters})
    try:
        strategy = resolve_strategies(request, (question.current.strategy.backend,))[0]
    except BadInputError:
        return None
    candidate = price(request, placed(strategy, setup.imported, program=request.program))
    verdict = question.judge(setup.imported, request, candidate)
    return Trial(setup.settings, setup.options, candidate, verdict, setup.moves)


def try_strategy(question: Question, setup: Setup, strategy: Strategy) -> Trial | None:
    """Write a strategy into a file's settings and into options of the training script, read it again, and judge it."""
    form, current = question.form, question.current.strategy
    new = form.settings(question.job_of(strategy), setup.imported)
    old = form.settings(question.job, question.imported)
    settings = dict(setup.settings) | {key: value for key, value in new.items() if value != old.get(key)}
    again = read_again(question, settings, setup.options)
    if again is None:
        return None
    options = dict(setup.options)
    for name in SCRIPT_KNOBS:
        if name in again.imported.options or (name == "loss_chunk_tokens" and again.imported.program.loss == "whole"):
            continue
        if getattr(strategy, name) != getattr(current, name) or name in options:
            options[name] = (getattr(strategy, name),)
        elif name != "loss_chunk_tokens":
            options.setdefault(name, (getattr(current, name),))
    again = read_again(question, settings, options)
    return None if again is None else tried(question, replace(again, moves=setup.moves))
