"""Cost of one call of a collective: by a ring, by the switches of a domain, or along a chain of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cost_models.collectives.group_span import Span
from cost_models.inputs.layout import Floats
from cost_models.rates.published import CollectiveRate
from lcplan.spec.hardware import Link

CHUNK_BYTES = 2.0**22 / 8.0
"""Bytes that one channel of NCCL passes on at a time in a broadcast: one of 8 steps of a buffer of 4 MiB."""

HOP_LATENCY_S = {"domain": 3.4e-6, "network": 14.0e-6}
"""NCCL's latencies of one hop of a ring over NVLink and over a network, protocol Simple (src/graph/tuning.cc, hwLatencies)."""

DOMAIN_CHANNELS = 24.0
"""Channels of a collective inside a domain, as in ``cost_models.collectives.contention``."""


@dataclass(frozen=True)
class CallCost:
    """Cost of one call of a collective: ``latency_s + bytes * seconds_per_byte`` for an operand of ``bytes``; shape ``[n]``.

    ``in_switch`` is the cost of another algorithm of the same collective; a call takes the faster one, as NCCL's tuning does.

    Source: alpha-beta model of nccl-tests, doc/PERFORMANCE.md.
    """

    latency_s: Floats
    seconds_per_byte: Floats
    in_switch: CallCost | None = None
    chain: tuple[Floats, Floats] | None = None
    """A chain of members: the time in which one byte per channel passes all hops [s/byte], and the channels [count]."""

    def seconds(self, size_bytes: Floats) -> Floats:
        """Return the time of one call with an operand of ``size_bytes`` [s], shape ``[n]``."""
        own: Floats = self.latency_s + size_bytes * self.seconds_per_byte
        if self.chain is not None:
            own = own + self.chain[0] * np.minimum(CHUNK_BYTES, size_bytes / self.chain[1])
        return own if self.in_switch is None else np.minimum(own, self.in_switch.seconds(size_bytes))

    def spread(self, to_rows: Callable[[Floats], Floats]) -> CallCost:
        """Return the costs of the rows that share each placement [s and s per byte], shape ``[n]``."""
        other = self.in_switch.spread(to_rows) if self.in_switch is not None else None
        chain = None if self.chain is None else (to_rows(self.chain[0]), to_rows(self.chain[1]))
        return CallCost(to_rows(self.latency_s), to_rows(self.seconds_per_byte), other, chain)


def switch_cost(span: Span, rate: CollectiveRate) -> CallCost:
    """Return the cost of an all-reduce that the switches of a domain sum, over groups with the placement ``span``.

    ``a + b (n - 1) + S (1 + 1 / n) / B``: a device sends its operand once and receives the sum of its part, and the switches
    send each part to all; a ring sends ``2 (n - 1) / n`` of the operand. Infinite for groups of more than one domain.

    Parameters
    ----------
    span : Span
        Groups.
    rate : CollectiveRate
        a, b [s] and B, one way of one device [bytes/s].

    Returns
    -------
    CallCost
        Latency [s per call] and time per byte of the operand [s/byte], shape ``[n]``.

    Notes
    -----
    Valid for NVSwitch with SHARP (Hopper and newer). Source: NCCL's NVLS algorithm; with B constant at 305 GB/s the formula
    gives the bus bandwidths of 414 to 473 GB/s that 5 to 8 H200 reach (stas00/ml-engineering, network/README.md, SHARP)
    within 2 %.
    """
    inside = np.where(span.crosses > 1, np.inf, 1.0)
    latency = (rate.latency_s + rate.member_latency_s * (span.members - 1.0)) * inside
    return CallCost(latency, (1.0 + 1.0 / span.members) / rate.oneway_bytes_per_s)


def broadcast_cost(span: Span, rate: CollectiveRate, *, network: Link | None) -> CallCost:
    """Return the cost of a broadcast along a chain of all members of the groups ``span``.

    ``sum over hops (l + c k / B) + S / B``: the first chunk of c bytes passes every hop before the last member has it, in
    a k-th of the bandwidth, as each of k channels has its own ring; then the rest follows at the slowest hop's B.
    A message of fewer than k chunks has smaller ones.

    Parameters
    ----------
    span : Span
        Groups.
    rate : CollectiveRate
        B of a hop inside a domain [bytes/s].
    network : Link or None
        B of a hop between domains, of all ports of one [bytes/s].

    Returns
    -------
    CallCost
        Latency [s per call] and time per byte [s/byte], shape ``[n]``; ``chain`` holds the first chunk's way.

    Notes
    -----
    Ignores NCCL's LL protocols of small messages. Source: github NVIDIA/nccl, src/device/broadcast.h (a ring, chunks of one
    step), src/include/device.h and src/init.cc (4 MiB of buffer in 8 steps), src/graph/tuning.cc (latencies of a hop).
    """
    outside = span.crosses - 1.0
    inside = span.members - 1.0 - outside
    latency = HOP_LATENCY_S["domain"] * inside + HOP_LATENCY_S["network"] * outside
    per_byte = np.full_like(span.members, 1.0 / rate.oneway_bytes_per_s)
    fill = inside * per_byte
    channels = np.full_like(span.members, DOMAIN_CHANNELS)
    if network is not None:
        port = network.port_oneway_bytes_per_s
        per_port = network.oneway_bytes_per_s.value if port is None else port.value
        across = 1.0 / (network.oneway_bytes_per_s.value * span.inner)
        fill = fill + outside * across
        channels = np.where(outside > 0, np.maximum(span.inner * network.oneway_bytes_per_s.value / per_port, 1.0), channels)
        per_byte = np.where(outside > 0, np.maximum(per_byte, across), per_byte)
    return CallCost(latency, per_byte, chain=(channels * fill, channels))
