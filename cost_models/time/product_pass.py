"""One product over tensor, or a feed-forward's two, in the forward pass, as texts on collective matmul time them."""

from __future__ import annotations

import numpy as np

from cost_models.collectives.collective_matmul import RingMatmul
from cost_models.collectives.network import Network
from cost_models.collectives.step import STREAM_RING, terms_of
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from lcplan.spec.collective import Op


def product_pass_seconds(setting: Setting, table: StrategyTable, *, feed_forward: bool) -> Floats:
    """Return the time of the feed-forward's up projection with its gather over tensor, or of both projections.

    The down projection is followed by a scatter over tensor.

    Parameters
    ----------
    setting : Setting
        Model (one of its layers counts), machine and workload.
    table : StrategyTable
        Candidates; with ``collective_matmul`` rows travel during the product, else before it.
    feed_forward : bool
        Whether to count both projections, or only the up projection.

    Returns
    -------
    ndarray, shape [n]
        One microbatch [s].

    Notes
    -----
    Ignores the activation between the products. Source: docs/step.md; cost_models.collectives.collective_matmul.
    """
    layout, rates = Layout(setting, table), rates_for(setting)
    network = Network.of(layout, rates)
    seconds = {(term.op, term.purpose): network.seconds(term) for term in terms_of(layout) if term.purpose.startswith("stream")}
    ring = RingMatmul(layout, rates, seconds["collective-permute", STREAM_RING])

    def product(elements: Floats, *, op: Op) -> Floats:
        travels = ring.extra_seconds(elements, sums=op == "reduce-scatter")
        apart = np.where(layout.ring_matmuls, travels, seconds[op, "stream"])
        return ring.product_seconds(elements) + np.where(layout.tensor > 1, apart, 0.0)

    total = product(ring.up_elements, op="all-gather")
    return total + product(ring.down_elements, op="reduce-scatter") if feed_forward else total
