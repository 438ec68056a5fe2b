"""Where a mesh axis's groups lie on the machine, and how long a collective over such a group takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.collectives import Term
from cost_models.layout import Floats, Layout
from cost_models.rates import CollectiveRate, Rates
from cost_models.table import ORDERS
from lcplan.hardware import HardwareSpec
from lcplan.strategy import AxisName

MOVED_TWICE = "all-reduce"


@dataclass(frozen=True)
class Span:
    """Groups of one or more mesh axes on the machine; columns of shape ``[n]``.

    ``members`` devices a group, ``stride`` apart, ``inner`` of them in one domain.
    """

    members: Floats
    stride: Floats
    inner: Floats

    @property
    def crosses(self) -> Floats:
        """Domains that a group touches."""
        domains: Floats = np.ceil(self.members / self.inner)
        return domains


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
    table = layout.table
    members = np.ones(len(table))
    for axis in axes:
        members = members * getattr(table, axis)
    stride = _stride(layout, axes, ORDERS[0])
    for code, order in enumerate(ORDERS[1:], start=1):
        stride = np.where(table.axis_order == code, _stride(layout, axes, order), stride)
    domain = float(layout.setting.hardware.domain_size)
    inner = np.minimum(np.maximum(np.floor(domain / stride), 1.0), members)
    return Span(members, stride, inner)


def _stride(layout: Layout, axes: tuple[AxisName, ...], order: tuple[AxisName, ...]) -> Floats:
    innermost = max(order.index(axis) for axis in axes)
    stride = np.ones(len(layout.table))
    for axis in order[innermost + 1 :]:
        stride = stride * getattr(layout.table, axis)
    return stride


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
        covered = (np.minimum(high, end) > np.maximum(low, start)) & (size > 1)
        whole = (low <= start) & (high >= end) & wrap
        links = links + covered * np.where(whole, 2.0, 1.0)
        start = end
    return np.maximum(links, 1.0)


def moved_bytes(op: str, size_bytes: Floats, members: Floats) -> Floats:
    """Bytes that one device sends for one call.

    All-gather, reduce-scatter and all-to-all: ``S (n - 1) / n``; all-reduce twice that; a permute S.

    Parameters
    ----------
    op : str
        Kind of collective.
    size_bytes : ndarray
        S, the larger side of the operand [bytes].
    members : ndarray
        n, devices of a group.

    Returns
    -------
    ndarray, shape [n]
        Sent by one device [bytes per call].

    Notes
    -----
    Source: nccl-tests, doc/PERFORMANCE.md, bus bandwidth of ring algorithms.

    Examples
    --------
    >>> float(moved_bytes("all-reduce", np.array(100.0), np.array(4.0)))
    150.0
    """
    if op == "collective-permute":
        return size_bytes
    share = size_bytes * (1.0 - 1.0 / members)
    return 2.0 * share if op == MOVED_TWICE else share


def collective_seconds(term: Term, *, layout: Layout, span: Span, rates: Rates) -> Floats:
    """Time of one call: latency plus the slower of the domain's links and the network between domains.

    ``a + b (n - 1) + max(moved / B_domain, moved / (B_network w))``: a ring over k domains enters each through the
    network ports of its ``w`` members there, so the outer level has ``w`` ports; a permute's message and an
    all-to-all's share use the sender's own.

    Parameters
    ----------
    term : Term
        Collective.
    layout : Layout
        Candidates.
    span : Span
        The term's groups.
    rates : Rates
        What the device achieves.

    Returns
    -------
    ndarray, shape [n]
        Time [s per call].

    Notes
    -----
    Ignores congestion between different groups beyond one port a device. Source: alpha-beta model of nccl-tests,
    fitted in data/device_rates.json; the outer level as in NVIDIA's multi-rail rings.
    """
    hardware = layout.setting.hardware
    rate = rates.collectives[term.op]
    moved = moved_bytes(term.op, term.bytes, span.members)
    seconds = moved / _domain_bandwidth(hardware, span, rate=rate, op=term.op)
    latency = rate.latency_s + rate.member_latency_s * (span.members - 1)
    if hardware.network_link is not None:
        outer = span.crosses > 1
        width = 1.0 if term.op in {"collective-permute", "all-to-all"} else span.inner
        outside = 1.0 - span.inner / span.members if term.op == "all-to-all" else 1.0
        network = hardware.network_link
        seconds = np.where(outer, np.maximum(seconds, moved * outside / (network.oneway_bytes_per_s.value * width)), seconds)
        latency = latency + np.where(outer, network.latency_s.value * (span.crosses - 1), 0.0)
    return latency + seconds


def _domain_bandwidth(hardware: HardwareSpec, span: Span, *, rate: CollectiveRate, op: str) -> Floats | float:
    if hardware.torus is None or hardware.ici_link is None:
        return rate.oneway_bytes_per_s
    links = 1.0 if op == "collective-permute" else torus_links(hardware, span)
    return hardware.ici_link.oneway_bytes_per_s.value * links
