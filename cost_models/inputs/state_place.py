"""Where the optimizer's state and work lie."""

from __future__ import annotations

import numpy as np

from cost_models.inputs.layout import Floats, Layout


def optimizer_shards(layout: Layout) -> Floats:
    """Devices over which a shard of weights' optimizer work is split further.

    1, or with a distributed optimizer those of data and, where weights are not split over it, context, at most as many as
    the program's group has.

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
    Source: docs/tables.md, ``program``; lcplan's own step splits state as weights.
    """
    program = layout.setting.program
    if program.optimizer_over == "weights":
        return np.ones(len(layout.table))
    group = layout.data if program.weights_over == "fsdp+context" else layout.data * layout.context
    return np.minimum(group, program.optimizer_group or np.inf)
