"""Where a mesh axis's groups lie on the machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.inputs.collective_term import Part
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.table import ORDERS
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import AxisName


@dataclass(frozen=True)
class Span:
    """Groups of one or more mesh axes on the machine; columns of shape ``[n]``.

    A group has ``members`` devices [count], ``stride`` device ids apart [count], and ``inner`` of them share a domain [count].

    Source: ``jax.make_mesh`` over devices in order of their ids.
    """

    members: Floats
    stride: Floats
    inner: Floats

    @cached_property
    def others(self) -> Floats:
        """Share of a gathered operand that comes from the other members: ``(n - 1) / n`` [ratio]."""
        return 1.0 - 1.0 / self.members

    @cached_property
    def outer(self) -> Floats:
        """1 where a group lies in more than one domain, else 0 [count]."""
        return (self.crosses > 1).astype(np.float64)

    @cached_property
    def crosses(self) -> Floats:
        """Domains that a group touches: ``ceil(n / inner)`` [count]."""
        return np.asarray(np.ceil(self.members / self.inner))


def part_of(layout: Layout, span: Span, part: Part | None) -> Span:
    """The groups of neighbours that exchange heads, or those of one rank from each, out of a group of context ranks.

    Parameters
    ----------
    layout : Layout
        Candidates.
    span : Span
        Groups of the whole context axis.
    part : str or None
        ``neighbours``, ``groups``, or None for all ranks.

    Returns
    -------
    Span
        Members, stride and members a domain [devices], shape ``[n]``.

    Notes
    -----
    Source: docs/step.md, schemes: neighbouring ranks exchange heads, the ring goes over their groups.
    """
    if part is None:
        return span
    if part == "neighbours":
        return _placed(layout, layout.exchange, span.stride)
    return _placed(layout, layout.chunks, span.stride * layout.exchange)


def span_of(layout: Layout, axes: tuple[AxisName, ...]) -> Span:
    """Place the groups of ``axes`` on the machine: the innermost mesh axis is on neighbouring devices.

    The stride is the product of the axes inside the innermost of ``axes``; a domain of S devices holds
    ``max(1, min(members, S / stride))`` members.

    Parameters
    ----------
    layout : Layout
        Candidates.
    axes : tuple of axis names
        Mesh axes that the groups join.

    Returns
    -------
    Span
        Members, stride and members a domain [devices], shape ``[n]``.

    Notes
    -----
    Source: ``jax.make_mesh`` over devices in order of their ids, row-major: the last axis varies fastest.
    """
    members = layout.members(axes)
    stride = _stride(layout, axes, order=ORDERS[0])
    for code, order in enumerate(ORDERS[1:], start=1):
        if set(order[_innermost(axes, order) :]) != set(ORDERS[0][_innermost(axes, ORDERS[0]) :]):
            stride = np.where(layout.table.axis_order == code, _stride(layout, axes, order=order), stride)
    return _placed(layout, members, stride)


def _placed(layout: Layout, members: Floats, stride: Floats) -> Span:
    domain = float(layout.setting.hardware.domain_size)
    inner = np.minimum(np.maximum(np.floor(domain / stride), 1.0), members)
    return Span(members, stride, inner)


def _innermost(axes: tuple[AxisName, ...], order: tuple[AxisName, ...]) -> int:
    return max(order.index(axis) for axis in axes)


def _stride(layout: Layout, axes: tuple[AxisName, ...], *, order: tuple[AxisName, ...]) -> Floats:
    return layout.members(order[_innermost(axes, order) + 1 :])


def torus_links(hardware: HardwareSpec, span: Span) -> Floats:
    """ICI links, one way, that one collective of a group can drive from one device.

    A group covers torus dims from the last inwards; a dim that it covers in full with wraparound gives both directions,
    any other covered dim one.

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
