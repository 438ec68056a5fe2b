"""Helpers for a step file: ``mesh``, ``abstract`` and ``abstract_state``. Each loads jax on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.measure.step_file.helpers import abstract, abstract_state, mesh

_HOME = "planner.measure.step_file.helpers"

__all__ = ["abstract", "abstract_state", "mesh"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_HOME), name)
    raise AttributeError(f"module 'lcplan.step' has no attribute {name!r}")
