"""Segments: how many devices of each domain (rack, node, slice) a job on several domains uses."""

from __future__ import annotations

from functools import lru_cache

from lcplan.spec.hardware import HardwareSpec


def one_domain(hardware: HardwareSpec) -> int:
    """Return the most devices of a job that stays in one domain."""
    return hardware.segment or hardware.domain_size


def unit_of(hardware: HardwareSpec) -> int:
    """Return the devices that take part in a job on several domains together: a host's, or a TPU slice's.

    libtpu starts on every chip of a slice.
    """
    return hardware.domain_size if hardware.kind == "tpu" else hardware.node_size


def segments_of(hardware: HardwareSpec, devices: int) -> tuple[int, ...]:
    """Return the possible devices of each domain of a job that fills its domains alike, largest first.

    A job within one domain has one: all its devices. On several domains the same number of whole hosts of each takes part; a
    TPU slice takes part whole. A segment that divides a larger one is left out: the larger one has fewer domains and as even
    groups. Empty: no segment fills the domains evenly.

    Parameters
    ----------
    hardware
        The machine; its ``segment`` fixes the answer.
    devices
        Devices of the job [count].

    Notes
    -----
    Source: Slurm's topology/block plugin, ``--segment``: a job takes the same number of nodes of each block.

    Examples
    --------
    >>> from lcplan.catalog import hardware
    >>> segments_of(hardware("gb200-nvl72x16"), 128), segments_of(hardware("gb200-nvl72x16"), 144)
    ((64,), (72, 48))
    """
    return _segments(
        devices,
        domain=hardware.domain_size,
        unit=unit_of(hardware),
        domains=hardware.domains,
        fixed=hardware.segment or 0,
    )


@lru_cache(maxsize=2**17)
def _segments(devices: int, *, domain: int, unit: int, domains: int, fixed: int) -> tuple[int, ...]:
    if devices <= (fixed or domain):
        return (devices,)
    sizes = (fixed,) if fixed else range(domain, 0, -unit)
    found: list[int] = []
    for size in sizes:
        even = devices % size == 0 and devices // size <= domains
        if even and not any(larger % size == 0 for larger in found):
            found.append(size)
    return tuple(found)


def segment_of(hardware: HardwareSpec, devices: int, stated: int = 0) -> int:
    """Return the devices of each domain of a job: ``stated``, or the largest segment where that is 0.

    Devices that fill no domains evenly count as full domains and a rest.
    """
    if stated:
        return stated
    return next(iter(segments_of(hardware, devices)), min(devices, hardware.domain_size))


def domains_of(hardware: HardwareSpec, devices: int, stated: int = 0) -> int:
    """Return the domains that a job takes devices of."""
    return -(-devices // segment_of(hardware, devices, stated))


def domains_for(hardware: HardwareSpec, devices: int) -> int:
    """Return the fewest domains that a job fills evenly, however many there are.

    >>> from lcplan.catalog import hardware
    >>> domains_for(hardware("gb200-nvl72"), 2560)
    40
    """
    return domains_of(hardware.model_copy(update={"domains": devices}), devices)


def idle_devices(hardware: HardwareSpec, devices: int, stated: int = 0) -> int:
    """Return the devices of a job's domains that it leaves idle and no other job of several domains can use.

    A job inside one domain leaves no device idle: others share the domain.

    >>> from lcplan.catalog import hardware
    >>> idle_devices(hardware("gb200-nvl72x16"), 128), idle_devices(hardware("gb200-nvl72"), 64)
    (16, 0)
    """
    domains = domains_of(hardware, devices, stated)
    return domains * hardware.domain_size - devices if domains > 1 else 0
