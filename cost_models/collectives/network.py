"""Time of a collective over a mesh axis's groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from cost_models.collectives.call_cost import CallCost, broadcast_cost, switch_cost
from cost_models.collectives.group_span import Span, span_of, subgroup_span, torus_links
from cost_models.collectives.placements import Places, distinct_places
from cost_models.inputs.collective_term import Subgroup, Term
from cost_models.inputs.layout import Floats, Layout
from cost_models.rates.published import CollectiveRate, Rates
from lcplan.spec.hardware import HardwareSpec, Link
from lcplan.strategy import AxisName

Group = tuple[tuple[AxisName, ...], Subgroup | None]
"""Devices of one collective: the mesh axes, and the subgroup of their ranks."""


def moved_share(op: str, members: Floats) -> Floats | float:
    """Return the bytes that one device sends per call, as a share of the operand's bytes.

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
    """Return the moved share: an all-reduce moves the other members' share twice."""
    return 2.0 * others if op == "all-reduce" else others


def call_cost(op: str, span: Span, *, hardware: HardwareSpec, rates: Rates) -> CallCost:
    """Return latency and time per byte of one collective over groups with the placement ``span``.

    Latency is ``a + b (n - 1)``, plus one network latency per further domain. Time per byte, with m the moved share, is
    ``max(m / B_domain, m / (B_network w))``: a ring over k domains enters each through the network ports of its ``w``
    members there, so the outer level has ``w`` ports; a permute's message and an all-to-all's share use the sender's port.
    In a domain whose pairs have a link each, a group uses n - 1 of them, and a permute one.
    Where the network is oversubscribed, traffic that leaves its rail has ``1 / oversubscription_ratio`` of the bandwidth.

    Parameters
    ----------
    op : str
        Kind of collective.
    span : Span
        Its groups.
    hardware : HardwareSpec
        Machine.
    rates : Rates
        Rates that the device achieves.

    Returns
    -------
    CallCost
        Latency [s per call] and time per byte of the operand [s/byte], shape ``[n]``.

    Notes
    -----
    Ignores congestion between different groups beyond one port per device. Source: alpha-beta model of nccl-tests, fitted in
    data/device_rates.json; the outer level as in NVIDIA's multi-rail rings.
    """
    if op == "broadcast":
        return broadcast_cost(span, rates.collectives["all-gather"], network=hardware.network_link)
    rate = rates.collectives[op]
    moved = np.ones_like(span.members) if op == "collective-permute" else _scaled(op, span.others)
    per_byte = moved / _domain_bandwidth(hardware, span, rate=rate, op=op)
    latency = (rate.latency_s - rate.member_latency_s) + rate.member_latency_s * span.members
    network = hardware.network_link
    if network is not None and span.crosses.max(initial=1.0) > 1:
        outside = span.outer * ((1.0 - span.inner / span.members) if op == "all-to-all" else 1.0)
        outer = moved * outside / (network.oneway_bytes_per_s.value * _ports(network, span, op=op))
        outer = outer * _oversubscription(network, span, op=op)
        per_byte = np.maximum(per_byte, outer)
        latency = latency + network.latency_s.value * (span.crosses - 1)
    in_switch = rates.switch_all_reduce if op == "all-reduce" else None
    return CallCost(latency, per_byte, None if in_switch is None else switch_cost(span, in_switch))


def _ports(network: Link, span: Span, *, op: str) -> Floats | float:
    """Return how many devices' shares of the network one group's traffic out of a domain can use.

    A ring leaves a domain from one device, which can use the whole port that it shares with its neighbours.
    """
    if op == "all-to-all":
        return 1.0
    if op != "collective-permute":
        return span.inner
    port = network.port_oneway_bytes_per_s
    return 1.0 if port is None else np.minimum(port.value / network.oneway_bytes_per_s.value, span.inner)


def _oversubscription(network: Link, span: Span, *, op: str) -> Floats | float:
    """Return by how much the traffic between domains is slowed above the leaf switches.

    Devices with the same place in each domain share a leaf switch (a rail), and NCCL's rings between domains keep to it. An
    all-to-all, and a ring's hop from the last device of a domain to the first of the next, leave it where a domain has
    several members. Source: rail-optimized fabrics of NVIDIA's DGX SuperPOD reference architecture.
    """
    if network.oversubscription_ratio is None:
        return 1.0
    stays = span.on_rail & ((span.inner <= 1) | (op not in ("all-to-all", "collective-permute")))
    return np.where(stays, 1.0, network.oversubscription_ratio.value)


def _domain_bandwidth(hardware: HardwareSpec, span: Span, *, rate: CollectiveRate, op: str) -> Floats | float:
    if hardware.torus is None or hardware.ici_link is None:
        return rate.oneway_bytes_per_s * _mesh_share(hardware.domain_link, span, op=op)
    links = 1.0 if op == "collective-permute" else torus_links(hardware, span)
    return hardware.ici_link.oneway_bytes_per_s.value * links


def _mesh_share(link: Link, span: Span, *, op: str) -> Floats | float:
    """Return the share of a device's links that a group can use, where each pair of devices has a link of its own.

    ``(n - 1) p / B`` for n members in a domain and p of a pair; a permute uses one link. 1 where a switch joins the devices.
    """
    peer = link.peer_oneway_bytes_per_s
    if peer is None:
        return 1.0
    pairs = 1.0 if op == "collective-permute" else np.maximum(span.inner - 1.0, 1.0)
    return np.minimum(pairs * peer.value / link.oneway_bytes_per_s.value, 1.0)


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
    """Costs by placement, like ``_spans``."""
    _spread: dict[tuple[str, Group], CallCost] = field(default_factory=dict)
    """Costs by row."""

    @classmethod
    def of(cls, layout: Layout, rates: Rates) -> Self:
        """Return the network of a table."""
        return cls(distinct_places(layout), rates)

    def rows(self, rows: slice) -> Self:
        """Return the same costs for a part of the table; all parts share their placements and costs."""
        return replace(self, places=self.places.rows(rows), _spread={})

    def span(self, term: Term) -> Span:
        """Return the placement of the groups of ``term`` on the machine, in each row."""
        placed, spread = self._span((term.axes, term.subgroup)), self.places.spread
        on_rail = placed.on_rail if self.places.index is None else placed.on_rail[self.places.index]
        return Span(spread(placed.members), spread(placed.stride), spread(placed.inner), spread(placed.crosses), on_rail)

    def _span(self, group: Group) -> Span:
        if group not in self._spans:
            axes, subgroup = group
            self._spans[group] = subgroup_span(self.places.layout, span_of(self.places.layout, axes), subgroup)
        return self._spans[group]

    def _cost(self, op: str, group: Group) -> CallCost:
        if (op, group) not in self._costs:
            hardware = self.places.layout.setting.hardware
            self._costs[op, group] = call_cost(op, self._span(group), hardware=hardware, rates=self.rates)
        return self._costs[op, group]

    def seconds(self, term: Term) -> Floats:
        """Return the time of one call of ``term`` [s], shape ``[n]``; rows without calls get it too."""
        op = "all-to-all" if term.op == "ragged-all-to-all" else term.op  # no separate rate is known
        key = (op, (term.axes, term.subgroup))
        if key not in self._spread:
            cost, spread = self._cost(*key), self.places.spread
            self._spread[key] = cost.spread(spread)
        return self._spread[key].seconds(term.bytes if term.moved is None else term.moved)
