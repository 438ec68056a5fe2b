"""Changes where the rules leave nothing, or nothing that fits: numbers nearby that the axes of a mesh divide."""

from __future__ import annotations

from lcplan.formats.nearest import divisors
from lcplan.formats.units import format_tokens
from planner.request.request_changes import Ask
from planner.what_if.changes.change_kinds import Groups, Kind, Proposal, fixed, with_batch, with_devices

PADDING = tuple(2**power for power in range(1, 21))
"""Multiples that a sequence is padded to [tokens], while that makes it no more than twice as long."""
EVEN_TOKENS = 256
"""A length of whole 256 tokens can be divided by the context axes of one domain."""
MOST_COUNTS = 48
"""Device counts that are tried before giving up, nearest first."""


def _batch(ask: Ask) -> Groups:
    """The nearest batch, smaller or larger, that some ranks of the devices divide."""
    yield (_with_batch(ask, batch) for batch in _nearby(ask.request.workload.global_batch, ask.most_devices))


def _nearby(batch: int, devices: int) -> list[int]:
    """Multiples of the divisors of ``devices`` near ``batch``, nearest first.

    >>> _nearby(10, 4)
    [8, 12]
    """
    near = {size for ranks in divisors(devices)[1:] for size in (batch // ranks * ranks, -(-batch // ranks) * ranks)}
    return sorted(near - {0, batch}, key=lambda size: (abs(size - batch), size))


def _with_batch(ask: Ask, batch: int) -> Proposal:
    return with_batch(ask, batch, why=f"which {ask.most_devices} devices can share")


def _sequence(ask: Ask) -> Groups:
    """The sequence padded to the next multiple of a power of two."""
    if ask.longest > ask.request.workload.seq_len:
        yield (_padded(ask, length) for length in _lengths(ask))


def _lengths(ask: Ask) -> list[int]:
    seq = ask.request.workload.seq_len
    padded = {-(-seq // unit) * unit for unit in PADDING}
    return sorted(length for length in padded if seq < length <= min(2 * seq, ask.longest))


def _padded(ask: Ask, length: int) -> Proposal:
    shown = format_tokens(length)
    return Proposal(ask.with_request(ask.at(seq_len=length)), fixed(f"--seq {shown} (padded)", "--seq", shown))


def _devices(ask: Ask) -> Groups:
    """The most devices below, and the fewest above, whose meshes divide the model and the batch."""
    if ask.request.devices is not None:
        for counts, which in ((_below(ask), "fewer"), (_above(ask), "more")):
            yield (_counted(ask, count, which=which) for count in counts)


def _below(ask: Ask) -> list[int]:
    """Whole hosts, then powers of two."""
    asked, node = ask.request.devices or 1, ask.request.hardware.node_size
    step = node if asked > node else 1
    counts = list(range((asked - 1) // step * step, 0, -step))[:MOST_COUNTS]
    return [*counts, *(2**power for power in range(asked.bit_length(), -1, -1) if counts and 2**power < counts[-1])]


def _above(ask: Ask) -> list[int]:
    """The same, within the hardware."""
    asked, node, most = ask.request.devices or 1, ask.request.hardware.node_size, ask.request.hardware.devices
    step = node if asked >= node else 1
    counts = list(range(asked // step * step + step, most + 1, step))[:MOST_COUNTS]
    return [*counts, *(2**power for power in range(1, most.bit_length()) if counts and counts[-1] < 2**power <= most)]


def _counted(ask: Ask, count: int, *, which: str) -> Proposal:
    changed = with_devices(ask, count, hardware=ask.request.hardware)
    return Proposal(changed, fixed(f"--devices {count} ({which}, which meshes can fill)", "--devices", str(count)))


_KINDS: dict[str, Kind] = {"batch": _batch, "sequence": _sequence, "devices": _devices}
"""Every kind, by the name of the wider one in ``planner.what_if.changes.change_kinds`` that it belongs to."""


def divisor_kinds(ask: Ask, *, blocked: bool) -> dict[str, Kind]:
    """Changes that may help: all where the rules reject everything (``blocked``), padding for a length that few axes divide."""
    if blocked:
        return _KINDS
    return {"sequence": _sequence} if ask.request.workload.seq_len % EVEN_TOKENS else {}
