"""Predictions of the cost model for each case, in the quantities that tables state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.pytorch import RESERVED_OF_ALLOCATED
from cost_models.time.attention_pass import attention_pass_seconds
from cost_models.time.layer_pass import layer_pass_seconds
from cost_models.time.product_pass import product_pass_seconds
from planner.validate.choices import Case
from planner.validate.sources.table import MemoryFigure, Part, Quantity
from planner.workloads.pricing import price_table, table_of

Prediction = dict[Quantity | Literal["budget_ratio"], float | bool]
"""Values by quantity; ``budget_ratio`` is the memory that a device needs over the budget that decides ``fits``."""
CONVENTIONS = {
    "model": "tflop_per_s_per_device",
    "full-attention": "full_attention_tflop_per_s_per_device",
    "hardware": "hardware_tflop_per_s_per_device",
}


def predict(cases: Sequence[Case], parts: Sequence[Part], *, memory_figure: MemoryFigure) -> list[dict[str, Prediction]]:
    """Predict each case, by FLOP convention (``CONVENTIONS``); equal settings are priced together."""
    groups: dict[tuple[int, Part], list[int]] = defaultdict(list)
    for index, (case, part) in enumerate(zip(cases, parts, strict=True)):
        groups[(id(case.setting), part)].append(index)
    results: list[dict[str, Prediction]] = [{} for _ in cases]
    for (_, part), members in groups.items():
        setting = cases[members[0]].setting
        table = table_of(setting, [cases[i].strategy for i in members])
        found = _priced(setting, table, part=part, memory_figure=memory_figure)
        for index, prediction in zip(members, found, strict=True):
            results[index] = prediction
    return results


def _priced(setting: Setting, table: StrategyTable, *, part: Part, memory_figure: MemoryFigure) -> list[dict[str, Prediction]]:
    if part == "step":
        return _steps(setting, table, memory_figure=memory_figure)
    if part.startswith("layer"):
        return _layer(setting, table, part=part)
    if part in ("up-product", "feed-forward"):
        seconds = product_pass_seconds(setting, table, feed_forward=part == "feed-forward")
        return [{name: {"step_s": float(value)} for name in CONVENTIONS} for value in seconds]
    return _attention(setting, table, part=part)


def _layer(setting: Setting, table: StrategyTable, *, part: Part) -> list[dict[str, Prediction]]:
    forward, backward = layer_pass_seconds(setting, table)
    seconds = forward if part == "layer-forward" else backward
    return [{name: {"step_s": float(value)} for name in CONVENTIONS} for value in seconds]


def _steps(setting: Setting, table: StrategyTable, *, memory_figure: MemoryFigure) -> list[dict[str, Prediction]]:
    priced = price_table(setting, table)
    memory = _memory(setting, priced, figure=memory_figure)
    rates = {name: getattr(priced, column) for name, column in CONVENTIONS.items()}
    devices = table.devices
    need = (priced.total_bytes + priced.allowance_bytes) / setting.budget_bytes
    return [
        {
            name: {
                "step_s": float(priced.step_s[i]),
                "tokens_per_s_per_device": float(priced.tokens_per_s[i] / devices[i]),
                "tflop_per_s_per_device": float(rate[i]),
                "peak_bytes": float(memory[i]),
                "fits": bool(priced.fits[i]),
                "budget_ratio": float(need[i]),
            }
            for name, rate in rates.items()
        }
        for i in range(len(table))
    ]


def _memory(setting: Setting, priced: EstimateTable, *, figure: MemoryFigure) -> Floats:
    """The peak in a source's sense: the executable's need, then with workspaces, then with communicators and context."""
    if figure == "device":
        hardware = setting.hardware
        return priced.total_bytes + priced.allowance_bytes + hardware.device.hbm_bytes.value - hardware.usable_bytes
    if figure == "reserved" and setting.program.runtime == "torch":
        return priced.total_bytes * RESERVED_OF_ALLOCATED
    if figure == "reserved":
        return priced.total_bytes + setting.hardware.allowance.runtime_bytes.value
    return priced.total_bytes


def _attention(setting: Setting, table: StrategyTable, *, part: Part) -> list[dict[str, Prediction]]:
    forward, backward = attention_pass_seconds(setting, table)
    seconds = {"attention": forward + backward, "attention-forward": forward, "attention-backward": backward}[part]
    share = {"attention": 1.0, "attention-forward": 1 / 3.5, "attention-backward": 2.5 / 3.5}[part]
    work, model = setting.workload, setting.model
    causal = 7.0 * model.layers * model.heads * model.head_dim * float(work.seq_len) ** 2 * work.global_batch * share
    scale = {"model": 1.0, "full-attention": 2.0, "hardware": 1.0}
    rate = causal / table.devices / seconds / 1e12
    tokens = work.tokens / table.devices / seconds
    return [
        {
            name: {
                "step_s": float(seconds[i]),
                "tokens_per_s_per_device": float(tokens[i]),
                "tflop_per_s_per_device": float(rate[i] * factor),
            }
            for name, factor in scale.items()
        }
        for i in np.arange(len(table))
    ]
