"""The split of the optimizer's state and work over devices."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout


def optimizer_shards(layout: Layout) -> Floats:
    """Return the devices over which a weight shard's optimizer work is split further.

    1 without a distributed optimizer. With one, the devices of data and, where weights are not split over context, of context;
    at most those of the program's group.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray, shape [n]
        Devices [count].

    Notes
    -----
    Source: docs/tables.md, ``program``; lcplan's own step splits state as it splits weights.
    """
    program = layout.setting.program
    if program.optimizer_over == "weights":
        return np.ones(len(layout.table))
    group = layout.data if program.weights_over == "fsdp+context" else layout.data * layout.context
    return np.minimum(group, program.optimizer_group or np.inf)
