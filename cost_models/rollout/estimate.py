"""estimate_rollout: memory, time and throughput of every layout of a rollout, by part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from cost_models.compute.flops import attention_flop_per_sequence, matrix_flop_per_token
from cost_models.estimate import EstimateTable, allowance_bytes
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.rates.published import rates_for
from cost_models.rollout.layout import Rollout
from cost_models.rollout.memory import ROLLOUT_PHASES, RolloutMemory
from cost_models.rollout.table import RolloutTable
from cost_models.rollout.time import RolloutTime
from cost_models.uncertainty.kind import rests_on


@dataclass(frozen=True)
class RolloutEstimate(EstimateTable):
    """An ``EstimateTable`` whose step is the whole rollout and whose tokens are the generated ones."""

    phases: tuple[str, ...] = ROLLOUT_PHASES
    """Names of the codes in ``phase``."""
    extra: dict[str, Floats] | None = None
    """Further columns of a row's object."""

    def phase_name(self, i: int) -> str:
        """The phase that binds row ``i``."""
        return self.phases[int(self.phase[i])]

    def row(self, i: int) -> dict[str, Any]:
        """Row ``i`` with the seconds of one decode step and of one sequence."""
        return super().row(i) | {name: float(column[i]) for name, column in (self.extra or {}).items()}


def estimate_rollout(setting: Setting, table: RolloutTable) -> RolloutEstimate:
    """Price every layout of a rollout.

    Parameters
    ----------
    setting : Setting
        Model, machine, a workload that samples, and budget [bytes].
    table : RolloutTable
        Layouts.

    Returns
    -------
    RolloutEstimate
        Memory [bytes per device], time [s per rollout], throughput in generated tokens; shape ``[n]``.

    Notes
    -----
    Source: the other modules of this package; each names its sources.
    """
    rollout = Rollout(setting, table)
    memory, total, phase = RolloutMemory(rollout).parts()
    rates = rates_for(setting)
    times = RolloutTime(rollout, rates).parts()
    seconds = reduce(np.add, times.values())
    allowance = allowance_bytes(rollout.layout)
    work = rollout.work
    flop = rollout_flop(setting)
    rate = flop * 1e-12 / (seconds * rollout.layout.devices)
    return RolloutEstimate(
        memory_bytes=memory,
        total_bytes=total,
        allowance_bytes=allowance,
        phase=phase,
        host_bytes=np.zeros(len(table)),
        time_s=times,
        step_s=seconds,
        tokens_per_s=work.tokens / seconds,
        tflop_per_s_per_device=rate,
        full_attention_tflop_per_s_per_device=rate,
        hardware_tflop_per_s_per_device=rate,
        mfu_ratio=rate * 1e12 / rates.bound_flop_per_s(setting.hardware.device.peak_flop_per_s.value),
        fits=total + allowance <= setting.budget_bytes,
        segment=rollout.layout.segment,
        idle_devices=rollout.layout.idle_devices,
        basis=rates.basis,
        rests_on=rests_on(setting),
        extra={
            "decode_step_s": (seconds - times["prefill"]) / work.generate,
            "seconds_per_sequence": seconds / work.batch,
        },
    )


def rollout_need_bytes(setting: Setting, table: RolloutTable) -> Floats:
    """Memory that each layout takes from a device's budget: the larger of decode and prefill, and the allowance.

    Parameters
    ----------
    setting : Setting
        Model, machine and a workload that samples.
    table : RolloutTable
        Layouts.

    Returns
    -------
    ndarray, shape [n]
        Need [bytes per device].

    Notes
    -----
    Source: ``RolloutMemory``.
    """
    law = RolloutMemory(Rollout(setting, table))
    _, total, _ = law.parts()
    return np.asarray(total + allowance_bytes(law.rollout.layout))


def rollout_flop(setting: Setting) -> float:
    """Work of a rollout's forward passes, prompt and generated tokens alike.

    A third of the FLOPs of training on the same tokens.

    Parameters
    ----------
    setting : Setting
        Model and a workload that samples.

    Returns
    -------
    float
        Work [FLOP per rollout].

    Notes
    -----
    Source: ``cost_models.compute.flops``: the backward pass is twice the forward pass.
    """
    work, model = setting.workload, setting.model
    sequence = work.seq_len * matrix_flop_per_token(model) + attention_flop_per_sequence(model, float(work.seq_len))
    return work.global_batch * sequence / 3.0
