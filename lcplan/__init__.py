"""The nouns that a trainer imports and the questions that a notebook asks; each name loads on first use.

``lcplan.Plan.load("plan.yaml")`` gives mesh axes, PartitionSpec axis names, remat policy, XLA flags and environment without
importing jax, numpy or optuna. ``lcplan.search``, ``lcplan.estimate`` and ``lcplan.whatif`` are the commands as functions;
they live in ``planner.api``, which this package knows by name only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lcplan.evidence.plan import Plan
    from lcplan.formats.errors import BadInputError, LcplanError
    from lcplan.spec.hardware import HardwareSpec
    from lcplan.spec.model import ModelSpec
    from lcplan.spec.workload import Workload
    from lcplan.strategy import Mesh, Strategy
    from planner.api import Estimated, estimate, search, whatif

_HOME = {
    "BadInputError": "lcplan.formats.errors",
    "Estimated": "planner.api",
    "HardwareSpec": "lcplan.spec.hardware",
    "LcplanError": "lcplan.formats.errors",
    "Mesh": "lcplan.strategy",
    "ModelSpec": "lcplan.spec.model",
    "Plan": "lcplan.evidence.plan",
    "Strategy": "lcplan.strategy",
    "Workload": "lcplan.spec.workload",
    "estimate": "planner.api",
    "search": "planner.api",
    "whatif": "planner.api",
}

__all__ = [
    "BadInputError",
    "Estimated",
    "HardwareSpec",
    "LcplanError",
    "Mesh",
    "ModelSpec",
    "Plan",
    "Strategy",
    "Workload",
    "__version__",
    "estimate",
    "search",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'lcplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
