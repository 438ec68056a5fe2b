"""Rules on devices: how many a job can take, and which backends its links allow."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.rules.interface import Mask, Rule, code


def _too_many(setting: Setting, table: StrategyTable) -> Mask:
    return table.devices > setting.hardware.devices


def _say_too_many(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    return (
        f"{strategy.mesh.label} takes {strategy.devices} devices; {hardware.name} has {hardware.devices}: "
        f"shrink an axis, or ask for more domains ({hardware.name}x2)"
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
        f"all of each: use {whole} or {whole + node}"
    )


def _tensor_outside_domain(setting: Setting, table: StrategyTable) -> Mask:
    domain = setting.hardware.domain_size
    inside = (table.tensor <= domain) & ((table.devices <= domain) | (domain % table.tensor == 0))
    return ~inside


def _say_tensor_outside_domain(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    return (
        f"tensor={strategy.mesh.tensor} would cross the {hardware.domain_link.name} domain of "
        f"{hardware.domain_size} devices several "
        f"times a layer; use a divisor of {hardware.domain_size}"
    )


def _partial_domain(setting: Setting, table: StrategyTable) -> Mask:
    domain = setting.hardware.domain_size
    return (table.devices > domain) & (table.devices % domain != 0)


def _say_partial_domain(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    whole = strategy.devices // hardware.domain_size * hardware.domain_size
    return (
        f"{strategy.devices} devices fill {hardware.domain_link.name} domains of {hardware.domain_size} "
        "unevenly, so that groups of one "
        f"axis would not be alike; use {whole} or {whole + hardware.domain_size}"
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
    Rule("whole-domains", "mesh", _partial_domain, _say_partial_domain),
    Rule("tensor-in-domain", "mesh", _tensor_outside_domain, _say_tensor_outside_domain),
    Rule("backend-unused", "knob", _idle_backend, _say_idle_backend),
)
