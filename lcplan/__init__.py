"""lcplan: the shared nouns. What a trainer imports.

``lcplan.Plan.load("plan.yaml")`` gives mesh axes, PartitionSpec axis names, remat policy, XLA flags and
environment without importing jax, numpy or optuna. Names load on first use, so ``import lcplan`` is free.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lcplan.errors import BadInputError, LcplanError
    from lcplan.hardware import HardwareSpec
    from lcplan.model import ModelSpec
    from lcplan.plan import Plan
    from lcplan.strategy import Mesh, Strategy
    from lcplan.workload import Workload

_HOME = {
    "BadInputError": "lcplan.errors",
    "HardwareSpec": "lcplan.hardware",
    "LcplanError": "lcplan.errors",
    "Mesh": "lcplan.strategy",
    "ModelSpec": "lcplan.model",
    "Plan": "lcplan.plan",
    "Strategy": "lcplan.strategy",
    "Workload": "lcplan.workload",
}

__all__ = [
    "BadInputError",
    "HardwareSpec",
    "LcplanError",
    "Mesh",
    "ModelSpec",
    "Plan",
    "Strategy",
    "Workload",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'lcplan' has no attribute {name!r}")
