"""One whole layer alone, forward and backward: what papers on recomputation time."""

from __future__ import annotations

from cost_models.layout import Floats, Layout
from cost_models.rates import rates_for
from cost_models.setting import Setting
from cost_models.step_time import StepTime
from cost_models.table import StrategyTable


def layer_pass_seconds(setting: Setting, table: StrategyTable) -> tuple[Floats, Floats]:
    """Time of one layer on one microbatch: products, attention, memory-bound operations, exposed communication over tensor.

    The backward pass has what is repeated first. Of the residual stream's gathers and scatters two of each are forward, and
    in what is repeated, the rest is backward.

    Parameters
    ----------
    setting : Setting
        Model (one layer of it counts), machine and workload.
    table : StrategyTable
        Candidates.

    Returns
    -------
    tuple of ndarray, shape [n] each
        Forward and backward pass [s].

    Notes
    -----
    Ignores context parallelism and weights' gathers. Source: docs/step.md; cost_models.step_time.
    """
    layout = Layout(setting, table)
    times = StepTime(layout, rates_for(setting))
    passes = setting.model.layers * layout.microbatches
    again = times.repeats
    first = times.stream_forward / passes / (1.0 + again)
    return times.layer_forward + first, times.layer_backward + first * again + times.stream_backward / passes
