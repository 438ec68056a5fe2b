"""Time of a list of collectives from any source: the cost model or an executable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models.collectives.network import Network
from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from lcplan.spec.collective import CollectiveUse
from lcplan.strategy import AXES, BACKENDS, Strategy


def listed_seconds(setting: Setting, strategy: Strategy, uses: Sequence[CollectiveUse]) -> float:
    """Return the time of all calls in sequence, each on the backend that the list gives.

    Parameters
    ----------
    setting : Setting
        Model, machine and workload.
    strategy : Strategy
        The strategy whose mesh has the axes.
    uses : sequence of CollectiveUse
        Bytes [bytes per call], calls [per step]; uses whose axis or operation has no cost model are left out.

    Returns
    -------
    float
        Time [s per step], hidden time included.

    Notes
    -----
    Source: cost_models.collectives.network.
    """
    networks: dict[str, Network] = {}
    rates = rates_for(setting)
    total = 0.0
    for use in uses:
        axes = tuple(axis for axis in use.axis.split("+") if axis in AXES)
        if "+".join(axes) != use.axis or use.op not in rates.collectives:
            continue
        backend = use.backend if use.backend in BACKENDS else strategy.backend
        if backend not in networks:
            table = StrategyTable.from_strategies([strategy.model_copy(update={"backend": backend})])
            networks[backend] = Network.of(Layout(setting, table), rates)
        size, calls = np.array([float(use.bytes)]), np.array([float(use.calls)])
        term = Term(use.op, axes, use.purpose or "listed", size, calls, "exposed")
        total += float(use.calls * networks[backend].seconds(term)[0])
    return total
