"""Rules on the host's memory: whether remat can offload to it, and whether it has the capacity."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.saved_tensors import host_bytes, host_is_full
from lcplan.formats.units import format_bytes
from lcplan.strategy import Strategy
from lcplan.strategy.remat import OFFLOAD_PERCENT, REMAT_POLICIES
from planner.rules.interface import Mask, Rule, code

_OFFLOADING = tuple(code("remat", name) for name, policy in REMAT_POLICIES.items() if policy.offloaded)


def _offloads(table: StrategyTable) -> Mask:
    return np.isin(table.remat, _OFFLOADING)


def _host_link(setting: Setting, table: StrategyTable) -> Mask:
    if setting.hardware.device.host_oneway_bytes_per_s is not None or setting.untimed_offload:
        return np.zeros(len(table), dtype=np.bool_)
    return _offloads(table)


def _say_host_link(setting: Setting, strategy: Strategy) -> str:
    hardware = setting.hardware
    if hardware.kind == "cpu":
        return f"remat={strategy.remat} offloads to the host's memory, which is the devices' own on {hardware.name}; use full"
    return (
        f"remat={strategy.remat} offloads to the host's memory, and no bandwidth of {hardware.device.name}'s link to its host "
        "is known, so that its time does not compare with others'; ask only for policies that offload, "
        "state host_oneway_bytes_per_s in a hardware spec of your own, or use a policy that does not offload"
    )


def _host_memory(setting: Setting, table: StrategyTable) -> Mask:
    """Leave hosts whose memory is the devices' own to the rule about the link."""
    device = setting.hardware.device
    rejected = _offloads(table) & (setting.hardware.kind != "cpu")
    if device.host_memory_bytes is None:
        return rejected
    rows = np.flatnonzero(rejected)
    if len(rows):
        rejected[rows] = host_is_full(Layout(setting, table.take(rows)))
    return rejected


def _say_host_memory(setting: Setting, strategy: Strategy) -> str:
    device = setting.hardware.device
    if device.host_memory_bytes is None:
        return (
            f"remat={strategy.remat} offloads to the host's memory, and its size is not known for {device.name}; state "
            "host_memory_bytes (one device's share) in a hardware spec of your own, or use a policy that does not offload"
        )
    need = float(host_bytes(Layout(setting, StrategyTable.from_strategies([strategy])))[0])
    return (
        f"remat={strategy.remat} keeps {format_bytes(need)} a device in the host's memory, of which one device's share is "
        f"{format_bytes(device.host_memory_bytes.value)}; use more microbatches or context, a smaller offload_percent, "
        "or a policy that does not offload"
    )


def _offload_mode(_: Setting, table: StrategyTable) -> Mask:
    """XLA's partitioner (jax 0.10.1) gives no sharding to arrays placed in a memory where array types carry shardings."""
    return np.asarray(_offloads(table) & (table.sharding_mode == code("sharding_mode", "explicit")))


def _say_offload_mode(_: Setting, strategy: Strategy) -> str:
    return (
        f"remat={strategy.remat} offloads, and XLA does not compile that in sharding_mode=explicit; use sharding_mode=manual "
        "or auto, or a policy that does not offload"
    )


def _offload_share(_: Setting, table: StrategyTable) -> Mask:
    return np.asarray((table.offload_percent != OFFLOAD_PERCENT) & ~_offloads(table))


def _say_offload_share(_: Setting, strategy: Strategy) -> str:
    offloading = ", ".join(name for name, policy in REMAT_POLICIES.items() if policy.offloaded)
    return (
        f"offload_percent={strategy.offload_percent}: remat={strategy.remat} offloads nothing; leave it out, or use one of "
        f"{offloading}"
    )


HOST_RULES: tuple[Rule, ...] = (
    Rule("host-link", "knob", _host_link, _say_host_link),
    Rule("host-memory", "knob", _host_memory, _say_host_memory),
    Rule("offload-mode", "knob", _offload_mode, _say_offload_mode),
    Rule("offload-percent", "knob", _offload_share, _say_offload_share),
)
