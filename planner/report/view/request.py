"""The request as sentences: the terminal's headline, the page's title and its first line."""

from __future__ import annotations

from lcplan.formats.units import format_bytes, format_count, format_tokens
from planner.request.request import SearchRequest


def headline(request: SearchRequest) -> str:
    """The model and its work, and below it the hardware and its budget."""
    return (
        f"{request.model.name}, {_sizes(request)}; {request.workload.description}\n"
        f"{_devices(request)} x {request.hardware.device.name} ({request.hardware.name}), {_budget(request)}"
    )


def title(request: SearchRequest) -> str:
    """The heading of a page."""
    return f"{request.model.name} at {format_tokens(request.workload.seq_len)} tokens on {request.hardware.name}"


def asked(request: SearchRequest) -> str:
    """Everything else of the request in one line, below the title."""
    exactly = "exactly " if request.devices else ""
    return (
        f"{_sizes(request)}; {request.workload.description}; {exactly}{_devices(request)} x "
        f"{request.hardware.device.name}; {_budget(request)}; objective {request.objective}"
    )


def _sizes(request: SearchRequest) -> str:
    model = request.model
    active = f" ({format_count(model.active_parameters)} active)" if model.experts is not None else ""
    return f"{format_count(model.parameters)} parameters{active}"


def _devices(request: SearchRequest) -> str:
    return f"{request.devices}" if request.devices else f"up to {request.hardware.devices}"


def _budget(request: SearchRequest) -> str:
    return f"budget {format_bytes(request.budget_bytes)} a device"
