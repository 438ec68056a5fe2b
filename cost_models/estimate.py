"""estimate: memory, time and throughput of every candidate of a table, by part."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.flops import full_attention_flop, hardware_flop, model_flop
from cost_models.layout import Bools, Floats, Layout
from cost_models.memory import MEMORY_PARTS, PHASES, StepMemory
from cost_models.rates import rates_for
from cost_models.setting import Setting
from cost_models.step_time import TIME_PARTS, StepTime
from cost_models.table import StrategyTable
from cost_models.torch_memory import RESERVED_OF_ALLOCATED, TorchMemory

CHUNK_ROWS = 8192
"""Rows priced at a time: about sixty live float64 columns of this many rows stay in a core's cache."""


@dataclass(frozen=True)
class EstimateTable:
    """The laws' prediction for each row of a table; columns of shape ``[n]``, SI units.

    ``memory_bytes`` and ``time_s`` are by part (``MEMORY_PARTS``, ``TIME_PARTS``) and add up to ``total_bytes`` and
    ``step_s``. ``tflop_per_s_per_device`` counts model FLOPs; ``phase`` is a code into ``cost_models.memory.PHASES``.
    """

    memory_bytes: dict[str, Floats]
    total_bytes: Floats
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
    basis: dict[str, str]

    def __len__(self) -> int:
        return int(self.step_s.shape[0])

    def binding_part(self, i: int) -> str:
        """The largest memory part of row ``i``."""
        return max(self.memory_bytes, key=lambda name: float(self.memory_bytes[name][i]))

    def row(self, i: int) -> dict[str, Any]:
        """Row ``i`` as DESIGN's ``estimate`` object: plain numbers and strings, ready for JSON."""
        memory = {name: round(float(column[i])) for name, column in self.memory_bytes.items()}
        return {
            "step_s": float(self.step_s[i]),
            "tokens_per_s": float(self.tokens_per_s[i]),
            "tflop_per_s_per_device": float(self.tflop_per_s_per_device[i]),
            "full_attention_tflop_per_s_per_device": float(self.full_attention_tflop_per_s_per_device[i]),
            "hardware_tflop_per_s_per_device": float(self.hardware_tflop_per_s_per_device[i]),
            "mfu_ratio": float(self.mfu_ratio[i]),
            "fits": bool(self.fits[i]),
            "memory_bytes": {"total": sum(memory.values()), **memory},
            "memory_phase": PHASES[int(self.phase[i])],
            "allowance_bytes": round(float(self.allowance_bytes[i])),
            "time_s": {name: float(column[i]) for name, column in self.time_s.items()},
            "basis": self.basis,
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
    Source: the laws of this package, each with its own.
    """
    starts = range(0, max(len(table), 1), CHUNK_ROWS)
    return _joined([_chunk(setting, table.take(slice(start, start + CHUNK_ROWS))) for start in starts])


def _chunk(setting: Setting, table: StrategyTable) -> EstimateTable:
    layout = Layout(setting, table)
    rates = rates_for(setting)
    memory, total, phase = memory_law(layout).parts()
    times = StepTime(layout, rates).parts()
    step = sum(times.values(), start=np.zeros(len(table)))
    allowance = allowance_bytes(layout) + pool_slack_bytes(layout, total)
    scale = 1e-12 / (step * layout.devices)
    model_tflop_per_s = model_flop(setting) * scale
    return EstimateTable(
        memory_bytes=memory,
        total_bytes=total,
        allowance_bytes=allowance,
        phase=phase,
        time_s=times,
        step_s=step,
        tokens_per_s=setting.workload.tokens / step,
        tflop_per_s_per_device=model_tflop_per_s,
        full_attention_tflop_per_s_per_device=full_attention_flop(setting) * scale,
        hardware_tflop_per_s_per_device=hardware_flop(layout) * scale,
        mfu_ratio=model_tflop_per_s * 1e12 / setting.hardware.device.peak_flop_per_s.value,
        fits=total + allowance <= setting.budget_bytes,
        basis=rates.basis,
    )


def pool_slack_bytes(layout: Layout, total_bytes: Floats) -> Floats:
    """What PyTorch's allocator holds beyond what is allocated in it; XLA plans its buffers and has none.

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
    Source: ``cost_models.torch_memory.RESERVED_OF_ALLOCATED``.
    """
    share = RESERVED_OF_ALLOCATED - 1.0 if layout.setting.program.runtime == "torch" else 0.0
    return share * total_bytes


def memory_law(layout: Layout) -> StepMemory | TorchMemory:
    """The memory law of the runtime that the setting's program has.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    StepMemory or TorchMemory
        Parts [bytes per device].

    Notes
    -----
    Source: cost_models.memory and cost_models.torch_memory.
    """
    return TorchMemory(layout) if layout.setting.program.runtime == "torch" else StepMemory(layout)


def allowance_bytes(layout: Layout) -> Floats:
    """Memory that runtime and communicators take beside the executable.

    ``runtime + groups * communicator``: one communicator for each mesh axis above one, and one for fsdp with context.

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
    Source: the hardware spec's ``allowance``, each figure with its own.
    """
    table, allowance = layout.table, layout.setting.hardware.allowance
    groups = (table.data > 1) * 1.0 + (table.tensor > 1) + (table.context > 1) + (layout.weight_shards > 1) + (table.expert > 1)
    return np.asarray(allowance.runtime_bytes.value + groups * allowance.communicator_bytes.value)


def _joined(chunks: list[EstimateTable]) -> EstimateTable:
    if len(chunks) == 1:
        return chunks[0]

    def join(name: str) -> Any:
        return np.concatenate([getattr(chunk, name) for chunk in chunks])

    apart = {"memory_bytes", "time_s", "basis"}
    columns = {field.name: join(field.name) for field in fields(EstimateTable) if field.name not in apart}
    return EstimateTable(
        memory_bytes={part: np.concatenate([chunk.memory_bytes[part] for chunk in chunks]) for part in MEMORY_PARTS},
        time_s={part: np.concatenate([chunk.time_s[part] for chunk in chunks]) for part in TIME_PARTS},
        basis=chunks[0].basis,
        **columns,
    )
