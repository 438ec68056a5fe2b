"""The pace of trainers whose own step is slower than the priced one: published step times over estimates of the same jobs."""

from __future__ import annotations

from functools import lru_cache

from lcplan.formats.units import format_seconds, format_tokens
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.workload import Workload
from planner.request.filters import Filters, parse_mesh
from planner.request.request import SearchRequest
from planner.trainers import Trainer, all_trainers, trainer
from planner.trainers.common.interface import MeasuredStep
from planner.workloads.one_strategy import resolve_strategy
from planner.workloads.pricing import price


def pace(target: Trainer, kind: str) -> float | None:
    """Return the mean ratio of the trainer's published steps on this kind of device to the estimates; None without any."""
    rows = [row for row in target.measured if _hardware(row).kind == kind]
    return sum(row.step_s / _priced_seconds(row) for row in rows) / len(rows) if rows else None


def pace_notes(request: SearchRequest, *, name: str | None, step_s: float | None = None) -> tuple[str, ...]:
    """List a note on each trainer whose step is slower than the priced one.

    Parameters
    ----------
    request
        The question, of a train step.
    name
        The trainer that it is about; None: all trainers with published steps on this kind of device.
    step_s
        The estimate of the trainer's job [s].
    """
    if request.workload.kind != "train" or request.program.runtime == "torch":
        return ()
    kind, asked = request.hardware.kind, all_trainers() if name is None else (trainer(name),)
    found = ((target, pace(target, kind)) for target in asked)
    return tuple(_note(target, ratio, step_s=step_s if name else None) for target, ratio in found if ratio)


def _note(target: Trainer, ratio: float, *, step_s: float | None) -> str:
    rows = "; ".join(
        f"{format_seconds(row.step_s)} for {row.model}, {format_tokens(row.seq_len)}, {row.hardware}" for row in target.measured
    )
    sources, name = ", ".join(dict.fromkeys(row.source for row in target.measured)), target.title.split()[0]
    here = f", so about {format_seconds(step_s * ratio)} here" if step_s else ""
    longer = f"published steps of {name} took {ratio:.2f} times as long{here}"
    return f"the time is that of lcplan's own step; {longer} ({rows}: {sources})"


@lru_cache(maxsize=64)
def _hardware(row: MeasuredStep) -> HardwareSpec:
    from lcplan import catalog

    return catalog.hardware(row.hardware)


@lru_cache(maxsize=64)
def _priced_seconds(row: MeasuredStep) -> float:
    """The estimate of a measured job with full remat [s]."""
    from lcplan import catalog

    hardware = _hardware(row)
    request = SearchRequest(
        model=catalog.model(row.model),
        hardware=hardware,
        workload=Workload(seq_len=row.seq_len, global_batch=row.global_batch),
        filters=Filters(mesh=parse_mesh(row.mesh)),
        budget_bytes=int(hardware.usable_bytes),
    )
    strategy = resolve_strategy(request, hardware.backends[:1])
    return float(price(request, strategy).estimate["step_s"])
