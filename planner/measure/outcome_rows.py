"""A worker's outcome as a row of evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeVar

from lcplan.evidence.measurement import Compiled, Timed
from planner.measure.targets.target import Target
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.pool import Outcome
from planner.measure.workers.stderr_lines import warnings_in

Row = TypeVar("Row", bound=Compiled)
TimedRung = Literal["timed:slice", "timed:full"]


def compiled_row(
    outcome: Outcome,
    *,
    target: Target,
    toolchain: Toolchain,
    kind: type[Row] = Compiled,  # type: ignore[assignment]
) -> Row:
    """A compile's outcome, with the memory and collectives of the executable or the error."""
    facts = dict(outcome.result or {})
    seconds = facts.pop("compile_s", outcome.seconds)
    note = (target.note,) if target.note else ()
    warnings = (*note, *facts.pop("warnings", ()), *warnings_in(outcome.stderr))
    return kind(
        rung=target.rung,
        target=target.name,
        jax=toolchain.jax or "",
        finished_at=now(),
        compile_s=round(seconds, 3),
        warnings=warnings,
        error=outcome.failure.words if outcome.failure else None,
        **facts,
    )


def timed_row(outcome: Outcome, *, rung: TimedRung, target: Target, toolchain: Toolchain) -> Timed:
    """A timing's outcome, with its samples or the error."""
    facts = dict(outcome.result or {})
    return Timed(
        rung=rung,
        device=facts.pop("device", target.name),
        jax=toolchain.jax or "",
        finished_at=now(),
        error=outcome.failure.words if outcome.failure else facts.pop("error", None),
        **{key: value for key, value in facts.items() if key != "error"},
    )


def now() -> str:
    """The time of a measurement, as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
