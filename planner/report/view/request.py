"""The request as sentences: the terminal's headline, the page's title and its first line."""

from __future__ import annotations

from lcplan.formats.units import format_bytes, format_count, format_tokens
from lcplan.spec.rollout_workloads import RlWorkload, SampleWorkload
from planner.request.request import SearchRequest


def headline(request: SearchRequest) -> str:
    """The model and its work, and below it the hardware and its budget."""
    model = request.model
    active = f" ({format_count(model.active_parameters)} active)" if model.experts is not None else ""
    chosen = "" if _batch_given(request) else " (lcplan's choice; --global-batch changes it)"
    return (
        f"{model.name}, {format_count(model.parameters)} parameters{active}; {work(request)}{chosen}\n"
        f"{_devices(request)} x {request.hardware.device.name} ({request.hardware.name}), {_budget(request)}"
    )


def title(request: SearchRequest) -> str:
    """The heading of a page."""
    return f"{request.model.name} at {format_tokens(request.workload.seq_len)} tokens on {request.hardware.name}"


def asked(request: SearchRequest) -> str:
    """Everything else of the request in one line, below the title."""
    exactly = "exactly " if request.devices else ""
    chosen = "" if _batch_given(request) else ", lcplan's choice"
    return (
        f"{format_count(request.model.parameters)} parameters, {work(request)}{chosen}, {exactly}{_devices(request)} x "
        f"{request.hardware.device.name}, {_budget(request)}, objective {request.objective}"
    )


def work(request: SearchRequest) -> str:
    """The work of one step, rollout or iteration."""
    workload = request.workload
    if isinstance(workload, SampleWorkload):
        kind = "an iteration" if isinstance(workload, RlWorkload) else "a rollout"
        return f"{workload.batch} x {workload.prompt} + {workload.generate} tokens {kind}, cache in {workload.kv_dtype}"
    packed = "" if workload.document_len is None else f" in documents of {format_tokens(workload.document_len)}"
    return f"{workload.global_batch} x {format_tokens(workload.seq_len)} tokens a step{packed}"


def _batch_given(request: SearchRequest) -> bool:
    return isinstance(request.workload, SampleWorkload) or request.workload.global_batch_given


def _devices(request: SearchRequest) -> str:
    return f"{request.devices}" if request.devices else f"up to {request.hardware.devices}"


def _budget(request: SearchRequest) -> str:
    return f"budget {format_bytes(request.budget_bytes)} a device"
