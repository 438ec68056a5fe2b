"""Hardware by name: a catalogue name (with ``xN`` and ``:SEGMENT`` behind it), a TPU accelerator type, or ``cpu-host``."""

from __future__ import annotations

import re

from lcplan.catalog import folder, tpu
from lcplan.catalog.gpu_names import GPUS, SYSTEMS
from lcplan.formats.errors import BadInputError
from lcplan.formats.nearest import near_multiples
from lcplan.formats.suggest import hint
from lcplan.spec.hardware import HardwareSpec

MOST_DOMAINS = 2**20
_COUNTED = re.compile(r"(.+?)x([0-9]{1,7})")
_SEGMENTED = re.compile(r"(.+):([0-9]{1,7})")


def hardware_names() -> tuple[str, ...]:
    """Every name of the catalogue. A TPU generation appears once for all its slices, as ``tpu-v5p-N``."""
    families = tpu.family_names()
    return tuple(f"{name}-N" if name in families else name for name in folder.names("hardware"))


def named(text: str) -> HardwareSpec:
    """The hardware of a catalogue name, with or without ``xN`` and ``:SEGMENT``, or of an accelerator type.

    Raises
    ------
    BadInputError
        Unknown name, no such slice, or a segment that its domains do not have.
    """
    found = find_named(text)
    if found is not None:
        return found
    match = _COUNTED.fullmatch(text.lower().partition(":")[0])
    raise BadInputError(
        f"unknown hardware {text!r:.80}{hint(match[1] if match else text, _examples())} "
        "`lcplan catalog hardware` lists all; xN behind a name is N domains, :S after that is S devices of each, and the path "
        "of a YAML spec works too"
    )


def find_named(text: str) -> HardwareSpec | None:
    """The hardware of this name; None if there is no such name."""
    name = text.lower()
    if segmented := _SEGMENTED.fullmatch(name):
        spec = find_named(segmented[1])
        return None if spec is None else with_segment(spec, int(segmented[2]))
    whole = _one(name, domains=1)
    match = _COUNTED.fullmatch(name)
    if whole or not match:
        return whole
    return _one(match[1], domains=_count(text, int(match[2])))


def with_segment(spec: HardwareSpec, segment: int) -> HardwareSpec:
    """The hardware of which a job uses ``segment`` devices of each domain: ``gb200-nvl72x16:64``.

    Raises
    ------
    BadInputError
        A segment that is not whole hosts of a domain, or a part of a TPU slice.
    """
    if spec.kind != "gpu" and segment != spec.domain_size:
        raise BadInputError(
            f"hardware '{spec.name}:{segment}': a job takes all {spec.domain_size} devices of a {spec.kind} domain; "
            f"ask for {spec.name}, or for a smaller slice"
        )
    if not 0 < segment <= spec.domain_size or segment % spec.node_size:
        nodes = spec.domain_size // spec.node_size
        raise BadInputError(
            f"hardware '{spec.name}:{segment}': a segment is whole hosts of {spec.node_size} devices of the {nodes} hosts of a "
            f"domain; use {near_multiples(spec.node_size, segment, most=spec.domain_size)}"
        )
    if segment == spec.domain_size:
        return spec
    return spec.model_copy(update={"name": f"{spec.name}:{segment}", "segment": segment})


def _count(text: str, count: int) -> int:
    if not 1 <= count <= MOST_DOMAINS:
        raise BadInputError(f"hardware {text!r}: {count} domains are not between 1 and {MOST_DOMAINS}")
    return count


def _one(name: str, *, domains: int) -> HardwareSpec | None:
    """``domains`` of a catalogue name or accelerator type; None if there is no such name."""
    if name in tpu.family_names():
        example = tpu.slice_names(name)[-1]
        raise BadInputError(f"hardware {name!r} needs a slice size behind it, for example {example!r}")
    if not folder.has("hardware", name):
        return tpu.find(name, slices=domains)
    spec = HardwareSpec.read(*folder.read("hardware", name))
    if domains == 1:
        return spec
    if spec.kind == "cpu":  # forced host devices are one process: more of them, not more domains
        size = {"domain_size": spec.domain_size * domains, "node_size": spec.node_size * domains}
    else:
        size = {"domains": domains}
    return spec.model_copy(update={"name": f"{spec.name}x{domains}", **size})


def _examples() -> list[str]:
    """Names to compare a misspelt one with; each TPU generation by its published slices."""
    families = tpu.family_names()
    plain = [name for name in folder.names("hardware") if name not in families]
    return [*plain, *GPUS, *SYSTEMS, *(name for family in families for name in tpu.slice_names(family))]
