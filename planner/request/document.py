"""The request as part of every JSON document that lcplan writes."""

from __future__ import annotations

from typing import Any

from planner.request.request import SearchRequest

SCHEMA_VERSION = 1
"""Version of the JSON documents of all commands."""


def request_json(request: SearchRequest) -> dict[str, Any]:
    """The request as scripts read it: model and hardware with the figures that one asks for first."""
    model, hardware = request.model, request.hardware
    return {
        "model": {
            "parameters": model.parameters,
            "active_parameters": model.active_parameters,
            **model.model_dump(mode="json"),
        },
        "hardware": {"devices": hardware.devices, **hardware.model_dump(mode="json")},
        "workload": request.workload.model_dump(mode="json"),
        "budget_bytes": request.budget_bytes,
        "objective": request.objective,
        "devices": request.devices,
        "filters": request.filters.model_dump(mode="json", exclude_defaults=True),
    }
