"""Rules on devices: how many a job can take, and which backends its links allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import near_divisors
from lcplan.spec.segments import one_domain, segment_of, segments_of, unit_of
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule, code


def _too_many(setting: Setting, table: StrategyTable) -> Mask:
    return table.devices > setting.hardware.devices


def _say_too_many(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    return (
        f"{strategy.mesh.label} takes {strategy.devices} devices; {hardware.name} has {hardware.devices}: "
        f"shrink an axis, or ask for more domains ({hardware.enlarged_for(strategy.devices)})"
    )


def _partial_node(setting: Setting, table: StrategyTable) -> Mask:
    node = setting.hardware.node_size
    return (table.devices > node) & (table.devices % node != 0)


def _say_partial_node(setting: Setting, strategy: Strategy) -> str:
    node = setting.hardware.node_size
    whole = max(node, strategy.devices // node * node)
    return (
        f"{strategy.devices} devices are not whole hosts of {node} {setting.hardware.device.name}; a job of "
        "more than one host takes "
        f"all of each: {whole} or {whole + node} are whole"
    )


def _uneven(setting: Setting, table: StrategyTable) -> Mask:
    """Rows that no segment, or not the stated one, spreads evenly over domains."""
    hardware, stated = setting.hardware, table.segment
    counts, row = np.unique(table.devices, return_inverse=True)
    even = np.array([bool(segments_of(hardware, int(count))) for count in counts])[row.ravel()]
    given = np.maximum(stated, 1)
    usable = (given <= one_domain(hardware)) & (given % np.minimum(unit_of(hardware), table.devices) == 0)
    usable &= (table.devices % given == 0) & (table.devices // given <= hardware.domains)
    return np.where(stated > 0, ~usable, ~even)


def _say_uneven(setting: Setting, strategy: Strategy) -> str:
    hardware, devices = setting.hardware, strategy.devices
    domain = f"{hardware.domain_link.name} domains of {hardware.domain_size}"
    if strategy.segment:
        found = segments_of(hardware, devices)
        way = f"use {_listed(found)}, or 0 for the largest" if found else f"{_near(setting, devices)} devices spread evenly"
        return (
            f"segment={strategy.segment} does not spread {devices} devices evenly over {hardware.domains} {domain} in whole "
            f"hosts of {hardware.node_size}; {way}"
        )
    fixed = f", {hardware.segment} of each," if hardware.segment else ""
    return (
        f"{devices} devices do not spread evenly over {hardware.domains} {domain}{fixed} in whole hosts of "
        f"{hardware.node_size}, so that groups of one axis would not be alike; {_near(setting, devices)} do"
    )


def _near(setting: Setting, devices: int) -> str:
    """The nearest device counts below and above that spread evenly, in words."""
    hardware = setting.hardware
    counts = range(hardware.node_size, hardware.devices + 1, hardware.node_size)
    below = next((n for n in reversed(counts) if n < devices and segments_of(hardware, n)), None)
    above = next((n for n in counts if n > devices and segments_of(hardware, n)), None)
    return _listed([n for n in (below, above) if n is not None])


def _listed(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _tensor_outside_domain(setting: Setting, table: StrategyTable) -> Mask:
    """Rows whose tensor groups cross domains in every segment, or in the stated one."""
    hardware = setting.hardware
    counts, row = np.unique(table.devices, return_inverse=True)
    possible = [segments_of(hardware, int(count)) for count in counts]
    inside = np.zeros(len(table), dtype=np.bool_)
    for place in range(max(map(len, possible), default=0)):
        segment = np.array([sizes[place] if place < len(sizes) else 1 for sizes in possible], dtype=np.int64)[row.ravel()]
        inside |= segment % table.tensor == 0
    return np.where(table.segment > 0, table.segment % table.tensor != 0, ~inside)


def _say_tensor_outside_domain(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    segment = segment_of(hardware, strategy.devices, strategy.segment)
    return (
        f"tensor={strategy.mesh.tensor} would cross the {hardware.domain_link.name} domain, of which the job has {segment} "
        f"devices, several times a layer; use {near_divisors(segment, strategy.mesh.tensor)}"
    )


def _idle_backend(setting: Setting, table: StrategyTable) -> Mask:
    one_sided = np.isin(table.backend, [code("backend", "nvshmem"), code("backend", "symmetric")])
    rings = table.scheme_has(lambda facts: facts.rings)
    products = (table.tensor > 1) & (table.collective_matmul != code("collective_matmul", "off"))
    return one_sided & ~rings & ~products


def _say_idle_backend(_: Setting, strategy: Strategy) -> str:
    where = f"scheme={strategy.scheme}" if strategy.mesh.context > 1 else "context=1"
    return (
        f"backend={strategy.backend} with {where} has no collective-permute to carry, so it is backend=nccl's "
        "program except for small "
        "all-reduces; use backend=nccl, a ring scheme with context above 1, or collective_matmul with tensor above 1"
    )


DEVICE_RULES: tuple[Rule, ...] = (
    Rule("devices", "mesh", _too_many, _say_too_many),
    Rule("whole-hosts", "mesh", _partial_node, _say_partial_node),
    Rule("even-segments", "mesh", _uneven, _say_uneven),
    Rule("tensor-in-domain", "mesh", _tensor_outside_domain, _say_tensor_outside_domain),
    Rule("backend-unused", "knob", _idle_backend, _say_idle_backend),
)
