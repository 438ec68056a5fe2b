"""estimate: memory, time and throughput of every candidate of a table, by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.collectives.network import Network
from cost_models.compute.flops import full_attention_flop, hardware_flop, model_flop
from cost_models.inputs.kernel_groups import kernel_groups
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.lockstep import OwnMemory
from cost_models.memory.parts import PHASES, StepMemory
from cost_models.memory.plain_jax import PlainMemory
from cost_models.memory.pytorch import RESERVED_OF_ALLOCATED, TorchMemory
from cost_models.memory.saved_tensors import host_bytes, host_is_full
from cost_models.rates.published import rates_for
from cost_models.time.step import StepTime
from cost_models.uncertainty.bands import bands
from cost_models.uncertainty.errors import published_half_width
from cost_models.uncertainty.kind import RestsOn, rests_on
from lcplan.strategy import AxisName

CHUNK_ROWS = 8192
"""Rows priced at a time: about sixty live float64 columns of this many rows stay in a core's cache."""


@dataclass(frozen=True)
class EstimateTable:
    """The prediction for each row of a table; columns of shape ``[n]`` in SI units.

    ``memory_bytes`` and ``time_s`` are by part (``cost_models.parts``) and add up to ``total_bytes`` and ``step_s``;
    ``host_bytes`` is the size of offloaded tensors. ``tflop_per_s_per_device`` counts model FLOPs; ``phase`` is a code into
    ``cost_models.memory.parts.PHASES``. ``segment`` is the devices used of each domain, ``idle_devices`` the further devices of
    these domains, which no other job can use.

    Source: the cost models of this package, which give their sources.
    """

    memory_bytes: dict[str, Floats]
    total_bytes: Floats
    host_bytes: Floats
    allowance_bytes: Floats
    phase: NDArray[np.int8]
    time_s: dict[str, Floats]
    step_s: Floats
    tokens_per_s: Floats
    tflop_per_s_per_device: Floats
    full_attention_tflop_per_s_per_device: Floats
    hardware_tflop_per_s_per_device: Floats
    mfu_ratio: Floats
    fits: Bools
    segment: Floats
    idle_devices: Floats
    basis: dict[str, str]
    rests_on: RestsOn

    def __len__(self) -> int:
        return int(self.step_s.shape[0])

    def _columns(self) -> dict[str, NDArray[Any]]:
        """Return every column by a unique name."""
        apart = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        parts = {**{f"memory {k}": v for k, v in self.memory_bytes.items()}, **{f"time {k}": v for k, v in self.time_s.items()}}
        return {**apart, **parts}

    def like(self, length: int) -> EstimateTable:
        """Return a table with the same columns, ``length`` long and uninitialised; columns of one dtype share one block.

        A block is large enough for the operating system to use huge pages. The first touch of separate columns of a megabyte
        would take a tenth of an estimate.
        """
        columns = self._columns()
        made: dict[str, NDArray[Any]] = {}
        for dtype in {column.dtype for column in columns.values()}:
            names = [name for name, column in columns.items() if column.dtype == dtype]
            made |= dict(zip(names, np.empty((len(names), length), dtype=dtype), strict=True))
        apart: dict[str, Any] = {name: column for name, column in made.items() if " " not in name}
        memory = {part: made[f"memory {part}"] for part in self.memory_bytes}
        return replace(self, **apart, memory_bytes=memory, time_s={part: made[f"time {part}"] for part in self.time_s})

    def fill(self, rows: slice | NDArray[np.intp], part: EstimateTable) -> None:
        """Write ``part`` into ``rows`` of a table that ``like`` made, while its columns are still in the core's cache."""
        columns = self._columns()
        for name, values in part._columns().items():
            columns[name][rows] = values

    def may_fit(self, budget_bytes: float) -> Bools:
        """Return the rows that fit at the low end of the half-width of the least memory: a compile may show that they do."""
        least = int(np.argmin(self.total_bytes)) if len(self) else 0
        ratio = published_half_width(self.rests_on.memory({k: float(v[least]) for k, v in self.memory_bytes.items()})).ratio
        return np.asarray(self.total_bytes / (1.0 + ratio) + self.allowance_bytes <= budget_bytes)

    def binding_part(self, i: int) -> str:
        """Return the key of the largest memory part of row ``i``."""
        return max(self.memory_bytes, key=lambda name: float(self.memory_bytes[name][i]))

    def phase_name(self, i: int) -> str:
        """Return the phase with the largest memory of row ``i``."""
        return PHASES[int(self.phase[i])]

    def row(self, i: int) -> dict[str, Any]:
        """Return row ``i`` as DESIGN's ``estimate`` object: plain numbers and strings, ready for JSON."""
        memory = {name: round(float(column[i])) for name, column in self.memory_bytes.items()}
        times = {name: float(column[i]) for name, column in self.time_s.items()}
        total = sum(memory.values())
        return {
            "step_s": float(self.step_s[i]),
            "tokens_per_s": float(self.tokens_per_s[i]),
            "tflop_per_s_per_device": float(self.tflop_per_s_per_device[i]),
            "full_attention_tflop_per_s_per_device": float(self.full_attention_tflop_per_s_per_device[i]),
            "hardware_tflop_per_s_per_device": float(self.hardware_tflop_per_s_per_device[i]),
            "mfu_ratio": float(self.mfu_ratio[i]),
            "fits": bool(self.fits[i]),
            "memory_bytes": {"total": total, **memory},
            "host_bytes": round(float(self.host_bytes[i])),
            "memory_phase": self.phase_name(i),
            "allowance_bytes": round(float(self.allowance_bytes[i])),
            "time_s": times,
            "placement": {
                "devices_of_each_domain": round(float(self.segment[i])),
                "idle_devices": round(float(self.idle_devices[i])),
            },
            "basis": self.basis,
            **bands(self.rests_on, time_s=times, memory_bytes=memory),
        }


def estimate(setting: Setting, table: StrategyTable) -> EstimateTable:
    """Price every candidate.

    Parameters
    ----------
    setting : Setting
        Model, machine, workload and budget [bytes].
    table : StrategyTable
        Candidates.

    Returns
    -------
    EstimateTable
        Memory [bytes per device], time [s per step], throughput; shape ``[n]``.

    Notes
    -----
    Source: the cost models of this package, which give their sources.
    """
    groups = kernel_groups(setting, table)
    if len(groups) == 1:
        return _estimate(groups[0][0], table)
    priced = [(rows, _estimate(group, table.take(rows))) for group, rows in groups]
    whole = priced[0][1].like(len(table))
    for rows, part in priced:
        whole.fill(rows, part)
    return whole


def _estimate(setting: Setting, table: StrategyTable) -> EstimateTable:
    """Return the estimate of candidates that share a setting, computed one chunk of rows at a time."""
    whole: EstimateTable | None = None
    network = Network.of(Layout(setting, table), rates_for(setting))
    for start in range(0, max(len(table), 1), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        part = _chunk(setting, table.take(rows), network.rows(rows))
        if len(part) == len(table):
            return part
        whole = whole or part.like(len(table))
        whole.fill(rows, part)
    assert whole is not None
    return whole


def _chunk(setting: Setting, table: StrategyTable, network: Network) -> EstimateTable:
    layout, rates = Layout(setting, table), network.rates
    memory, total, phase = memory_model(layout).parts()
    times = StepTime(layout, rates, network).parts()
    step = sum(times.values(), start=np.zeros(len(table)))
    allowance = allowance_bytes(layout) + pool_slack_bytes(layout, total)
    scale = 1e-12 / (step * layout.devices)
    model_tflop_per_s = model_flop(setting) * scale
    return EstimateTable(
        memory_bytes=memory,
        total_bytes=total,
        host_bytes=host_bytes(layout),
        allowance_bytes=allowance,
        phase=phase,
        time_s=times,
        step_s=step,
        tokens_per_s=setting.workload.tokens / step,
        tflop_per_s_per_device=model_tflop_per_s,
        full_attention_tflop_per_s_per_device=full_attention_flop(setting) * scale,
        hardware_tflop_per_s_per_device=hardware_flop(layout) * scale,
        mfu_ratio=model_tflop_per_s * 1e12 / rates.bound_flop_per_s(setting.hardware.device.peak_flop_per_s.value),
        fits=total + allowance <= setting.budget_bytes,
        segment=layout.segment,
        idle_devices=layout.idle_devices,
        basis=rates.basis,
        rests_on=rests_on(setting),
    )


def pool_slack_bytes(layout: Layout, total_bytes: Floats) -> Floats:
    """Return the reserved but unallocated bytes of PyTorch's allocator; 0 for XLA, which plans its buffers.

    Parameters
    ----------
    layout : Layout
        Candidates.
    total_bytes : ndarray, shape [n]
        Peak of allocated bytes [bytes per device].

    Returns
    -------
    ndarray, shape [n]
        Slack [bytes per device].

    Notes
    -----
    Source: ``cost_models.memory.pytorch.RESERVED_OF_ALLOCATED``.
    """
    share = RESERVED_OF_ALLOCATED - 1.0 if layout.setting.program.runtime == "torch" else 0.0
    return share * total_bytes


def memory_model(layout: Layout) -> OwnMemory | StepMemory | TorchMemory:
    """Return the memory model for the runtime of the setting's program.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    OwnMemory, StepMemory or TorchMemory
        Parts [bytes per device].

    Notes
    -----
    Source: cost_models.memory.lockstep, cost_models.memory.parts, cost_models.memory.plain_jax and cost_models.memory.pytorch.
    """
    program = layout.setting.program
    if program.runtime == "torch":
        return TorchMemory(layout)
    return PlainMemory(layout) if program.derivative == "autodiff" else OwnMemory(layout)


def allowance_bytes(layout: Layout) -> Floats:
    """Return the memory that runtime and communicators take in addition to the executable.

    ``runtime + groups * communicator``: one communicator for each mesh axis above one, one for fsdp with context, two for
    folded experts (their ranks and their replicas), and the further communicators of a trainer's ring.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Allowance [bytes per device].

    Notes
    -----
    Source: ``allowance`` of the hardware spec, which gives the source of each value.
    """
    allowance = layout.setting.hardware.allowance
    kinds: tuple[tuple[AxisName, ...], ...] = (
        ("data",),
        ("tensor",),
        ("context",),
        ("fsdp", "context"),
        ("expert",),
        ("pipe",),
    )
    groups = reduce(np.add, [layout.joins(axes) for axes in kinds])
    groups = groups + 2.0 * layout.folds
    more = layout.setting.program.ring_communicators - 1
    groups = groups + more * layout.rings * layout.joins(("context",)) if more else groups
    return np.asarray(allowance.runtime_bytes.value + groups * allowance.communicator_bytes.value)


def least_step_seconds(setting: Setting, devices: int) -> float:
    """Return a time that no step of a dense model on ``devices`` devices or fewer can take less than.

    ``F / (n R)``: the model's FLOPs, without repeats, at the rate of the fastest kernel.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    devices : int
        n, the most devices [count].

    Returns
    -------
    float
        Bound [s per step].

    Notes
    -----
    Source: ``cost_models.compute.flops.model_flop`` and the rates of ``cost_models.rates.published``: every matrix product and
    every attention kernel is priced at one of them or slower.
    """
    rates = rates_for(setting)
    fastest = max(rates.gemm.value, rates.attention_forward.value, rates.attention_backward.value)
    return float(model_flop(setting) / (devices * fastest))


def need_bytes(setting: Setting, table: StrategyTable) -> Floats:
    """Return the memory that a train step needs: its executable's total plus the allowance.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    table : StrategyTable
        Strategies.

    Returns
    -------
    ndarray, shape [n]
        Need [bytes per device]; the strategy fits where it is at most the budget. Infinite where the host's memory cannot
        hold the tensors that remat offloads, which no device budget can fix.

    Notes
    -----
    Source: ``memory_model``, ``allowance_bytes`` and ``cost_models.memory.saved_tensors.host_is_full``.
    """
    need = np.empty(len(table))
    for group, rows in kernel_groups(setting, table):
        layout = Layout(group, table.take(rows))
        _, total, _ = memory_model(layout).parts()
        need[rows] = np.where(host_is_full(layout), np.inf, total + allowance_bytes(layout))
    return need
