"""Short names of meshes and strategies, the same in the terminal, on the page and in the charts."""

from __future__ import annotations

from lcplan.strategy import Strategy

NO_CONTEXT = "no context axis"
"""Shown as the scheme where the mesh has no context axis, so that no scheme runs."""


def mesh_label(strategy: Strategy) -> str:
    """The axes above one by their letters: ``24: c8 t3`` is context 8 by tensor 3 on 24 devices."""
    axes = strategy.mesh.short_label
    return f"{strategy.devices}: {axes}" if axes else "1"


def scheme_label(strategy: Strategy) -> str:
    """The scheme that runs, by which filters and colours group strategies."""
    return strategy.scheme if strategy.mesh.context > 1 else NO_CONTEXT


def short_label(strategy: Strategy) -> str:
    """Mesh, scheme, remat and backend in few letters."""
    scheme = f" {strategy.scheme}" if strategy.mesh.context > 1 else ""
    return f"{mesh_label(strategy)}{scheme} {strategy.remat_label} {strategy.backend}"
