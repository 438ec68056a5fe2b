"""The named mesh: the strategy's axes from the outermost (crosses nodes first) to the innermost (neighbouring devices)."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from lcplan.formats.errors import BadInputError
from lcplan.strategy import Strategy
from strategies.inputs.step_spec import Platform

BATCH_AXES = ("data", "fsdp", "expert")
"""Axes over which whole sequences are split: outside the experts, ``expert`` is one more axis of data and state."""
STATE_AXES = ("fsdp", "context", "expert")
"""Axes over which the D dim of every matrix but the experts' is split; they gather it in this order."""
EXPERT_STATE_AXES = ("fsdp", "context")
"""The same for the experts' matrices, whose experts are split over ``expert``."""
TENSOR = "tensor"
CONTEXT = "context"
EXPERT = "expert"
PIPE = "pipe"


def axis_sizes(strategy: Strategy) -> dict[str, int]:
    """Sizes by axis name, outermost first.

    Axes of a placement stay where their size is 1, so that every PartitionSpec of a step without a pipeline is valid.
    """
    return {axis: getattr(strategy.mesh, axis) for axis in strategy.mesh_axes}


def platform_of(mesh: Mesh) -> Platform:
    """Return the platform of the mesh's devices, real ones or those of a topology."""
    platform = mesh.devices.flat[0].platform
    return "tpu" if platform == "tpu" else "cpu" if platform == "cpu" else "gpu"


def build_mesh(strategy: Strategy, devices: Sequence[jax.Device]) -> Mesh:
    """Mesh over ``devices`` (real or of a topology), in the order given: the last axis takes neighbours.

    Raises
    ------
    BadInputError
        The number of devices is not the product of the axes.
    """
    sizes = axis_sizes(strategy)
    if len(devices) != strategy.devices:
        raise BadInputError(f"mesh {strategy.mesh.label} needs {strategy.devices} devices; {len(devices)} were given")
    grid = np.array(devices, dtype=object).reshape(tuple(sizes.values()))
    return Mesh(grid, tuple(sizes))
