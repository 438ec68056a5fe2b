"""Placement of a mesh axis's groups on the machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.inputs.collective_term import Subgroup
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import ORDERS
from cost_models.schemes.ring import ring_window
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import OUTERMOST, AxisName


@dataclass(frozen=True)
class Span:
    """Groups of one or more mesh axes on the machine; columns of shape ``[n]``.

    A group has ``members`` devices [count], ``stride`` device ids apart [count]. It spans ``crosses`` domains [count], and at
    least ``inner`` of its members share each [count]. ``on_rail``: they have the same places in each domain.

    Source: ``jax.make_mesh`` over devices in order of their ids.
    """

    members: Floats
    stride: Floats
    inner: Floats
    crosses: Floats
    on_rail: Bools

    @cached_property
    def others(self) -> Floats:
        """Share of a gathered operand that other members send: ``(n - 1) / n`` [ratio]."""
        return 1.0 - 1.0 / self.members

    @cached_property
    def outer(self) -> Floats:
        """1 where a group spans more than one domain, else 0 [count]."""
        return (self.crosses > 1).astype(np.float64)


def subgroup_span(layout: Layout, span: Span, subgroup: Subgroup | None) -> Span:
    """Return the span of a subgroup: context ranks that exchange heads or one of each such group, or the ranks of experts.

    Folded expert ranks are neighbours outside the tensor ranks that split an expert, whatever axes they are of.

    Parameters
    ----------
    layout : Layout
        Candidates.
    span : Span
        Groups of all ranks of the axes.
    subgroup : str or None
        One of ``Subgroup``, or None for all ranks.

    Returns
    -------
    Span
        Members, stride and members per domain [devices], shape ``[n]``.

    Notes
    -----
    Source: docs/step.md, schemes: neighbouring ranks exchange heads, the ring goes over their groups. Folded ranks:
    megatron-core, ``parallel_state.py`` (``RankGenerator``); torchtitan, ``parallel_dims.py`` (``full_sparse_mesh``).
    """
    if subgroup is None:
        return span
    if subgroup == "experts":
        return _placed(layout, layout.expert_ranks, np.where(layout.folds, layout.expert_tensor, span.stride))
    if subgroup == "expert-replicas":
        inside = layout.expert_tensor * layout.expert_ranks
        return _placed(layout, layout.expert_replicas, np.where(layout.folds, inside, span.stride))
    if subgroup == "neighbours":
        return _placed(layout, layout.exchange, span.stride)
    window, stride = ring_window(layout), span.stride * layout.exchange
    members = {"window": window, "windows": layout.chunks / window}.get(subgroup, layout.chunks)
    return _placed(layout, members, stride * window if subgroup == "windows" else stride)


def span_of(layout: Layout, axes: tuple[AxisName, ...]) -> Span:
    """Return the span of the groups of ``axes``: the innermost mesh axis is on neighbouring devices.

    The stride is the product of the axes inside the innermost of ``axes``. See ``_placed`` for the members of each domain.

    Parameters
    ----------
    layout : Layout
        Candidates.
    axes : tuple of axis names
        Mesh axes that the groups span.

    Returns
    -------
    Span
        Members, stride and members per domain [devices], shape ``[n]``.

    Notes
    -----
    Source: ``jax.make_mesh`` over devices in order of their ids, row-major: the last axis varies fastest.
    """
    members = layout.members(axes)
    usual, *others = ((*OUTERMOST, *order) for order in ORDERS)
    stride = _stride(layout, axes, order=usual)
    for code, order in enumerate(others, start=1):
        if set(order[_innermost(axes, order) :]) != set(usual[_innermost(axes, usual) :]):
            stride = np.where(layout.table.axis_order == code, _stride(layout, axes, order=order), stride)
    return _placed(layout, members, stride)


def _placed(layout: Layout, members: Floats, stride: Floats) -> Span:
    """Return the span of groups of ``members`` devices, ``stride`` apart, in domains of which the job has S devices each.

    A group extends over ``E = members * stride`` devices and starts at a multiple of E, hence at a multiple of
    ``g = gcd(E, S)`` in its domain. The worst-placed group spans ``ceil((S - g + E) / S)`` domains, at most one per member, and
    has ``g / stride`` members in the domain with the fewest. Where E divides S, or S divides E, this is every group.
    """
    segment = layout.segment
    extent = members * stride
    shared = np.gcd(extent.astype(np.int64), np.maximum(segment, 1.0).astype(np.int64)).astype(np.float64)
    inner = np.minimum(np.maximum(np.floor(shared / stride), 1.0), members)
    crosses = np.minimum(np.ceil((segment - shared + extent) / segment), members)
    return Span(members, stride, inner, np.maximum(crosses, 1.0), on_rail=(shared == segment) & (segment % stride == 0))


def _innermost(axes: tuple[AxisName, ...], order: tuple[AxisName, ...]) -> int:
    return max(order.index(axis) for axis in axes)


def _stride(layout: Layout, axes: tuple[AxisName, ...], *, order: tuple[AxisName, ...]) -> Floats:
    return layout.members(order[_innermost(axes, order) + 1 :])


def torus_links(hardware: HardwareSpec, span: Span) -> Floats:
    """Return the one-way ICI links that one collective of a group can use from one device.

    A group covers torus dims starting from the last. A dim that it covers in full with wraparound gives both directions, any
    other covered dim gives one.

    Parameters
    ----------
    hardware : HardwareSpec
        A machine with ``torus``.
    span : Span
        Groups.

    Returns
    -------
    ndarray, shape [n]
        Links [count], at least 1.

    Notes
    -----
    Source: Austin et al., How to Scale Your Model, section on sharding: an all-gather over a wrapped axis moves both ways.
    """
    assert hardware.torus is not None
    wraps = hardware.torus_wrap or (False,) * len(hardware.torus)
    links = np.zeros_like(span.members)
    low, high = span.stride / hardware.devices_per_chip, span.stride * span.members / hardware.devices_per_chip
    start = 1.0
    for size, wrap in zip(reversed(hardware.torus), reversed(wraps), strict=True):
        end = start * size
        if size > 1:
            covered = (np.minimum(high, end) > np.maximum(low, start)).astype(np.float64)
            links += covered
            if wrap:
                links += covered * ((low <= start) & (high >= end))
        start = end
    return np.maximum(links, 1.0)
