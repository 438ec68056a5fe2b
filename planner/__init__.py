"""Verbs: space, rules, search, measure, choose, show.

``planner.search``, ``planner.estimate`` and ``planner.whatif`` are aliases of ``lcplan.search``, ``lcplan.estimate`` and
``lcplan.whatif``. They load on first use, so that ``import planner`` is free.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.api import Estimated, estimate, search, whatif

_API = ("Estimated", "estimate", "search", "whatif")
__all__ = ["Estimated", "estimate", "search", "whatif"]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module("planner.api"), name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
