"""One whole layer, forward and backward, as papers on recomputation time it."""

from __future__ import annotations

from cost_models.collectives.contention import hidden_contention_seconds
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from cost_models.time.step import StepTime


def layer_pass_seconds(setting: Setting, table: StrategyTable) -> tuple[Floats, Floats]:
    """Return the time of one layer on one microbatch: products, attention, memory-bound operations, tensor communication.

    The backward pass includes repeated forward work. Two gathers and two scatters of the residual stream are in the forward
    pass and in its repetition, the others in the backward pass. Where products hide them, their kernels take multiprocessors
    from the products.

    Parameters
    ----------
    setting : Setting
        Model (one of its layers counts), machine and workload.
    table : StrategyTable
        Candidates.

    Returns
    -------
    tuple of ndarray, shape [n] each
        Forward and backward pass [s].

    Notes
    -----
    Ignores context parallelism and weights' gathers. Source: docs/step.md; cost_models.time.step.
    """
    layout = Layout(setting, table)
    times = StepTime(layout, rates_for(setting))
    passes = setting.model.layers * layout.microbatches
    once = 1.0 / (1.0 + times.repeats)
    forward, backward = (seconds / passes for seconds in (times.stream_forward, times.stream_backward))
    if setting.hardware.kind == "gpu":
        lost = [hidden_contention_seconds(layout, hidden) / passes for hidden in times.hidden_stream]
        forward, backward = forward + lost[0], backward + lost[1]
    return times.layer_forward + forward * once, times.layer_backward + forward * (1.0 - once) + backward
