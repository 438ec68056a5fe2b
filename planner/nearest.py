"""When nothing fits: the nearest miss, and which single change would make something fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lcplan.errors import BadInputError
from lcplan.units import GIB, format_bytes, format_tokens
from planner.analyse import analyse
from planner.filters import Filters
from planner.request import SearchRequest


@dataclass(frozen=True)
class Change:
    """One change to the request and what it buys: the best step time that then fits [s]."""

    says: str
    request: SearchRequest
    step_s: float


def changes_that_fit(request: SearchRequest, backends: tuple[str, ...]) -> list[Change]:
    """Single changes after which something fits, least step time a token first.

    Each change is the smallest of its kind: the largest batch below, the fewest domains above, the longest sequence below,
    and so on. Priced by the same laws over the whole space of the changed request.
    """
    found: list[Change] = []
    for kind in (_freed_filters, _bf16_moments, _smaller_batch, _more_domains, _shorter, _larger_budget):
        for says, changed in kind(request):
            step = _best_step(changed, backends)
            if step is not None:
                found.append(Change(says, changed, step))
                break
    return sorted(found, key=lambda change: change.step_s / change.request.workload.tokens)


def _best_step(request: SearchRequest, backends: tuple[str, ...]) -> float | None:
    estimates = analyse(request, backends).estimates
    fitting = estimates.step_s[estimates.fits]
    return float(np.min(fitting)) if len(fitting) else None


Changes = Iterator[tuple[str, SearchRequest]]


def _replaced(request: SearchRequest, **fields: object) -> SearchRequest:
    return SearchRequest.model_validate(request.model_copy(update=fields).model_dump())


def _freed_filters(request: SearchRequest) -> Changes:
    for name, value in request.filters.model_dump(exclude_defaults=True).items():
        shown = ",".join(str(part) for part in value)
        freed = request.filters.model_copy(update={name: Filters.model_fields[name].default})
        yield f"leave --{name.replace('_', '-')} open (it is {shown})", _replaced(request, filters=freed)


def _bf16_moments(request: SearchRequest) -> Changes:
    if "bf16" not in request.filters.moments_dtype:
        filters = request.filters.model_copy(update={"moments_dtype": ("bf16",)})
        yield "keep AdamW's moments in bf16 (--moments-dtype bf16)", _replaced(request, filters=filters)


def _smaller_batch(request: SearchRequest) -> Changes:
    batch = request.workload.global_batch
    while (batch := batch // 2) >= 1:
        workload = request.workload.model_copy(update={"global_batch": batch, "global_batch_given": True})
        yield f"--global-batch {batch}", _replaced(request, workload=workload)


def _more_domains(request: SearchRequest) -> Changes:
    hardware = request.hardware
    if hardware.network_link is None:
        return
    for factor in (2, 4, 8, 16):
        larger = hardware.model_copy(update={"domains": hardware.domains * factor})
        devices = request.devices * factor if request.devices else None
        where = f"{larger.devices} devices ({larger.domains} domains)"
        try:
            yield where, _replaced(request, hardware=larger, devices=devices)
        except BadInputError:
            return


def _shorter(request: SearchRequest) -> Changes:
    seq = request.workload.seq_len
    while (seq := seq // 2) >= 1024:
        workload = request.workload.model_copy(update={"seq_len": seq})
        yield f"--seq {format_tokens(seq)}", _replaced(request, workload=workload)


def _larger_budget(request: SearchRequest) -> Changes:
    limit = int(request.hardware.device.hbm_bytes.value)
    budget = request.budget_bytes
    while (budget := budget + max(GIB, budget // 20)) <= limit:
        yield f"--budget {format_bytes(budget)}", _replaced(request, budget_bytes=budget)
