"""Compile one part for a target in several ways, price it, and time it where its devices are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cost_models.collectives.group_span import span_of
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.time.part import part_seconds
from lcplan.evidence.measurement import Compiled, Timed
from lcplan.formats.errors import BadInputError
from lcplan.parts import Part
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import AXES, Strategy
from planner.measure.outcome_rows import compiled_row, timed_row
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.targets.target import Target, target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import kernel_for, worker_command
from planner.measure.workers.exclusive import alone_on_this_machine
from planner.measure.workers.job import STEP, CompileJob, PartJob
from planner.measure.workers.pool import Outcome, PoolLimits, Task, run_tasks
from planner.measure.workers.process import Launch

Flags = tuple[tuple[str, str | bool], ...]


@dataclass(frozen=True)
class Variant:
    """One way to compile the part, and its figures."""

    strategy: Strategy
    flags: Flags = ()
    seconds: dict[str, float] | None = None
    """Modelled time by item [s]; None: the cost model does not predict it."""
    compiled: Compiled | None = None
    timed: Timed | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the document of this way."""
        strategy = self.strategy
        modelled = None if self.seconds is None else {"step_s": sum(self.seconds.values()), "time_s": self.seconds}
        return {
            "sharding_mode": strategy.sharding_mode,
            "collective_matmul": strategy.collective_matmul,
            "scheme": strategy.scheme,
            "backend": strategy.backend,
            "flags": dict(self.flags),
            "modelled": modelled,
            "compiled": None if self.compiled is None else self.compiled.model_dump(mode="json"),
            "timed": None if self.timed is None else self.timed.model_dump(mode="json"),
        }


def parse_flags(text: str) -> Flags:
    """Read ``NAME=VALUE,NAME=VALUE``.

    Raises
    ------
    BadInputError
        A word is no assignment.

    Examples
    --------
    >>> parse_flags("--xla_tpu_enable_latency_hiding_scheduler=false")
    (('xla_tpu_enable_latency_hiding_scheduler', False),)
    """
    pairs = [word.strip().removeprefix("--").partition("=") for word in text.split(",") if word.strip()]
    wrong = [name for name, equals, value in pairs if not (name.startswith("xla_") and equals and value)]
    if wrong or not pairs:
        raise BadInputError(f"--flag {text!r}: {(wrong or [''])[0]!r} is no XLA flag with a value; write xla_name=value")
    return tuple((name, {"true": True, "false": False}.get(value, value)) for name, _, value in pairs)


@dataclass(frozen=True)
class Bench:
    """The target of a part, and the toolchain that compiles for it."""

    part: Part
    hardware: HardwareSpec
    toolchain: Toolchain
    strategy: Strategy
    """The mesh that all variants share."""

    def inspected(self, variants: Sequence[Variant]) -> tuple[Variant, ...]:
        """Return the variants with their modelled, compiled and, where the devices are at hand, timed figures."""
        priced = [replace(one, seconds=self._seconds(one.strategy)) for one in variants]
        compiled = [replace(one, compiled=self._compiled(one)) for one in priced]
        if devices_at_hand(self.hardware) < self.strategy.devices:
            return tuple(compiled)
        return tuple(replace(one, timed=self._timed(one)) if _ran(one) else one for one in compiled)

    def level(self, axis: str) -> str:
        """Return the link of the widest level that a collective over ``axis`` crosses."""
        names = tuple(name for name in AXES if name in axis.split("/", maxsplit=1)[0].split("+"))
        if not names:
            return "?"
        span = span_of(self._layout, names)
        link = self.hardware.network_link if float(np.asarray(span.crosses)[0]) > 1 else None
        return (link or self.hardware.domain_link).name

    @property
    def _layout(self) -> Layout:
        setting = Setting(self.part.model, self.hardware, self.part.workload, self.hardware.usable_bytes)
        return Layout(setting, StrategyTable.from_strategies([self.strategy]))

    def _seconds(self, strategy: Strategy) -> dict[str, float] | None:
        """Return the modelled time; None where the compiler chooses the collectives of a product."""
        chosen = strategy.sharding_mode != "manual" and bool(self.part.products())
        return None if chosen else part_seconds(self.part, strategy, self.hardware)

    def _compiled(self, one: Variant) -> Compiled:
        target = self._target(one)
        return compiled_row(self._outcome(one, target, "compile"), target=target, toolchain=self.toolchain)

    def _timed(self, one: Variant) -> Timed:
        target = self._target(one).model_copy(update={"at_hand": True})
        with alone_on_this_machine():
            outcome = self._outcome(one, target, "time")
        return timed_row(outcome, rung="timed:full", target=target, toolchain=self.toolchain)

    def _target(self, one: Variant) -> Target:
        target = target_for(one.strategy, self.hardware, toolchain=self.toolchain)
        return target.model_copy(update={"compiler_options": {**target.compiler_options, **dict(one.flags)}})

    def _outcome(self, one: Variant, target: Target, purpose: Literal["compile", "time"]) -> Outcome:
        model, workload = self.part.model, self.part.workload
        like = CompileJob(model=model, hardware=self.hardware, workload=workload, strategy=one.strategy)
        kernel = kernel_for(like, target, toolchain=self.toolchain)
        job = PartJob(purpose=purpose, part=self.part, strategy=one.strategy, target=target, kernel=kernel)
        launch = Launch(worker_command(self.toolchain.python, STEP), tuple(sorted(target.environment.items())))
        task = Task(launch, {"id": purpose, "part": job.model_dump(mode="json")})
        return next(run_tasks([task], PoolLimits(jobs=1)))


def _ran(one: Variant) -> bool:
    return one.compiled is not None and one.compiled.error is None
