"""Candidates grouped by the attention kernel that their chunk length allows: short chunks on a TPU run blockwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.setting import Kernel, Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy.attention_kernel import shortest_chunk


def kernel_groups(setting: Setting, table: StrategyTable) -> list[tuple[Setting, NDArray[np.intp] | slice]]:
    """Return the rows that run each attention kernel, with the setting that prices them.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    table : StrategyTable
        Candidates.

    Returns
    -------
    list of (Setting, ndarray or slice)
        One entry for each kernel that occurs; a single entry has all rows as a slice [row index].

    Notes
    -----
    Source: ``lcplan.strategy.attention_kernel``.
    """
    if setting.hardware.kind != "tpu" or setting.shortest_chunk is not None:
        return [(setting, slice(None))]
    settings: dict[Kernel, tuple[Setting, list[int]]] = {}
    for context in np.unique(table.context).tolist():
        priced = replace(setting, shortest_chunk=shortest_chunk(setting.workload.seq_len, context))
        settings.setdefault(priced.kernel, (priced, []))[1].append(context)
    if len(settings) <= 1:
        return [(priced, slice(None)) for priced, _ in settings.values()] or [(setting, slice(None))]
    return [(priced, np.flatnonzero(np.isin(table.context, sizes))) for priced, sizes in settings.values()]
