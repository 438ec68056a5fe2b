"""How long a collective over a mesh axis's groups takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from cost_models.collectives.group_span import Span, part_of, span_of, torus_links
from cost_models.collectives.placements import Places, distinct_places
from cost_models.inputs.collective_term import Part, Term
from cost_models.inputs.layout import Floats, Layout
from cost_models.rates.published import CollectiveRate, Rates
from lcplan.spec.hardware import HardwareSpec, Link
from lcplan.strategy import AxisName

Group = tuple[tuple[AxisName, ...], Part | None]
"""Which devices join one collective: mesh axes, and which of their ranks."""


def moved_share(op: str, members: Floats) -> Floats | float:
    """Bytes that one device sends for one call, over the operand's bytes.

    All-gather, reduce-scatter and all-to-all: ``(n - 1) / n``; all-reduce twice that; a permute 1.

    Parameters
    ----------
    op : str
        Kind of collective.
    members : ndarray
        n, devices of a group.

    Returns
    -------
    ndarray, shape [n], or float
        Sent by one device [bytes per byte of the operand's larger side].

    Notes
    -----
    Source: nccl-tests, doc/PERFORMANCE.md, bus bandwidth of ring algorithms.

    Examples
    --------
    >>> float(moved_share("all-reduce", np.array(4.0)))
    1.5
    """
    if op == "collective-permute":
        return 1.0
    return _scaled(op, 1.0 - 1.0 / members)


def _scaled(op: str, others: Floats) -> Floats:
    """All-reduce moves the other members' share twice."""
    return 2.0 * others if op == "all-reduce" else others


@dataclass(frozen=True)
class CallCost:
    """Cost of one call of a collective: ``latency_s + bytes * seconds_per_byte`` for an operand of ``bytes``; shape ``[n]``.

    Source: alpha-beta model of nccl-tests, doc/PERFORMANCE.md.
    """

    latency_s: Floats
    seconds_per_byte: Floats

    def seconds(self, size_bytes: Floats) -> Floats:
        """Time of one call with an operand of ``size_bytes`` [s], shape ``[n]``."""
        return self.latency_s + size_bytes * self.seconds_per_byte


def call_cost(op: str, span: Span, *, hardware: HardwareSpec, rates: Rates) -> CallCost:
    """Latency and time per byte of one collective over groups that lie as ``span`` says.

    Latency ``a + b (n - 1)``, and one latency of the network for each further domain. Per byte, with m the share moved:
    ``max(m / B_domain, m / (B_network w))``: a ring over k domains enters each through the network ports of its ``w``
    members there, so the outer level has ``w`` ports; a permute's message and an all-to-all's share use the sender's own.

    Parameters
    ----------
    op : str
        Kind of collective.
    span : Span
        Its groups.
    hardware : HardwareSpec
        Machine.
    rates : Rates
        What the device achieves.

    Returns
    -------
    CallCost
        Latency [s per call] and time per byte of the operand [s/byte], shape ``[n]``.

    Notes
    -----
    Ignores congestion between different groups beyond one port a device. Source: alpha-beta model of nccl-tests,
    fitted in data/device_rates.json; the outer level as in NVIDIA's multi-rail rings.
    """
    rate = rates.collectives[op]
    moved = np.ones_like(span.members) if op == "collective-permute" else _scaled(op, span.others)
    per_byte = moved / _domain_bandwidth(hardware, span, rate=rate, op=op)
    latency = (rate.latency_s - rate.member_latency_s) + rate.member_latency_s * span.members
    network = hardware.network_link
    if network is not None and span.crosses.max(initial=1.0) > 1:
        outside = span.outer * ((1.0 - span.inner / span.members) if op == "all-to-all" else 1.0)
        outer = moved * outside / (network.oneway_bytes_per_s.value * _ports(network, span, op=op))
        per_byte = np.maximum(per_byte, outer)
        latency = latency + network.latency_s.value * (span.crosses - 1)
    return CallCost(latency, per_byte)


def _ports(network: Link, span: Span, *, op: str) -> Floats | float:
    """Devices' parts of the network that one group's traffic out of a domain can use.

    A ring leaves a domain on one device, which can use the port of its neighbours where they share one.
    """
    if op == "all-to-all":
        return 1.0
    if op != "collective-permute":
        return span.inner
    port = network.port_oneway_bytes_per_s
    return 1.0 if port is None else np.minimum(port.value / network.oneway_bytes_per_s.value, span.inner)


def _domain_bandwidth(hardware: HardwareSpec, span: Span, *, rate: CollectiveRate, op: str) -> Floats | float:
    if hardware.torus is None or hardware.ici_link is None:
        return rate.oneway_bytes_per_s
    links = 1.0 if op == "collective-permute" else torus_links(hardware, span)
    return hardware.ici_link.oneway_bytes_per_s.value * links


@dataclass(frozen=True)
class Network:
    """Costs of collectives between the devices of one table.

    Each kind of group is placed and priced once for each distinct placement.

    Source: ``call_cost``; ``cost_models.collectives.placements``.
    """

    places: Places
    rates: Rates
    _spans: dict[Group, Span] = field(default_factory=dict)
    _costs: dict[tuple[str, Group], CallCost] = field(default_factory=dict)
    """Of the placements, as ``_spans``."""
    _spread: dict[tuple[str, Group], CallCost] = field(default_factory=dict)
    """Of the rows."""

    @classmethod
    def of(cls, layout: Layout, rates: Rates) -> Self:
        """The network of a table."""
        return cls(distinct_places(layout), rates)

    def rows(self, rows: slice) -> Self:
        """The same costs for a part of the table; placements and prices that one part finds serve all parts."""
        return replace(self, places=self.places.rows(rows), _spread={})

    def span(self, term: Term) -> Span:
        """The place of the groups of ``term`` on the machine, in each row."""
        placed, spread = self._span((term.axes, term.part)), self.places.spread
        return Span(spread(placed.members), spread(placed.stride), spread(placed.inner))

    def _span(self, group: Group) -> Span:
        if group not in self._spans:
            axes, part = group
            self._spans[group] = part_of(self.places.layout, span_of(self.places.layout, axes), part)
        return self._spans[group]

    def _cost(self, op: str, group: Group) -> CallCost:
        if (op, group) not in self._costs:
            hardware = self.places.layout.setting.hardware
            self._costs[op, group] = call_cost(op, self._span(group), hardware=hardware, rates=self.rates)
        return self._costs[op, group]

    def seconds(self, term: Term) -> Floats:
        """Time of one call of ``term`` [s], shape ``[n]``; also in rows without calls, as if they made one."""
        op = "all-to-all" if term.op == "ragged-all-to-all" else term.op  # no rate of its own is known
        key = (op, (term.axes, term.part))
        if key not in self._spread:
            cost, spread = self._cost(*key), self.places.spread
            self._spread[key] = CallCost(spread(cost.latency_s), spread(cost.seconds_per_byte))
        return self._spread[key].seconds(term.bytes if term.moved is None else term.moved)
