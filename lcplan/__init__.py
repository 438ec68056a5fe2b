"""lcplan: the shared nouns. What a trainer imports.

``lcplan.Plan.load("plan.yaml")`` gives mesh axes, PartitionSpec axis names, remat policy, XLA flags and
environment without importing jax, numpy or optuna. Names load on first use, so ``import lcplan`` is free.
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

_HOME = {
    "BadInputError": "lcplan.formats.errors",
    "HardwareSpec": "lcplan.spec.hardware",
    "LcplanError": "lcplan.formats.errors",
    "Mesh": "lcplan.strategy",
    "ModelSpec": "lcplan.spec.model",
    "Plan": "lcplan.evidence.plan",
    "Strategy": "lcplan.strategy",
    "Workload": "lcplan.spec.workload",
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
