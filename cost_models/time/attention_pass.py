"""Attention of one layer, forward and backward, with its scheme's communication, as context-parallel benchmarks time it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.attention.work import merge_bytes, ring_steps
from cost_models.collectives.contention import hop_contention_seconds
from cost_models.collectives.network import Network
from cost_models.collectives.ring_hops import exposed_ring_seconds, is_hop
from cost_models.collectives.step import terms_of
from cost_models.compute.host_time import BACKWARD_LAUNCHES, eager_attention_seconds
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import REMATS, StrategyTable
from cost_models.rates.published import rates_for


def attention_pass_seconds(setting: Setting, table: StrategyTable) -> tuple[Floats, Floats]:
    """Return the time of a step's attention without recomputation and without other work.

    It consists of kernels and merges of the slowest rank, the part of a ring's messages that its kernels do not hide, the
    multiprocessors that these messages take, and the gathers and all-to-alls of other schemes in full. It is at least the time
    that an eager host takes for the launches.

    Parameters
    ----------
    setting : Setting
        Model (all its layers count), machine and workload.
    table : StrategyTable
        Candidates; the remat policy is not read.

    Returns
    -------
    tuple of ndarray, shape [n] each
        Forward and backward pass of all layers [s per step].

    Notes
    -----
    Ignores launches between kernels of compiled programs. Source: docs/step.md;
    cost_models.attention.work and cost_models.collectives.network.
    """
    kept = np.full(len(table), REMATS.index("save-all"), dtype=np.int8)
    layout, rates = Layout(setting, replace(table, remat=kept)), rates_for(setting)
    forward, backward = ring_steps(layout, rates, backward=False), ring_steps(layout, rates, backward=True)
    network = Network.of(layout, rates)
    passes = setting.model.layers * layout.microbatches
    times = [passes * (steps.total_s + merge_bytes(layout, steps) / rates.hbm.value) for steps in (forward, backward)]
    found = [(term, network.seconds(term)) for term in terms_of(layout) if term.axes == ("context",) and np.any(term.calls > 0)]
    hops = exposed_ring_seconds(layout, found, forward_s=forward.later_s, backward_s=backward.later_s)
    times = [own + exposed for own, exposed in zip(times, hops, strict=True)]
    for term, seconds in found:
        if is_hop(term):
            own = (term.calls - term.backward, term.backward)
            for index, steps in enumerate((forward, backward)):
                lost = hop_contention_seconds(layout, hop_s=seconds, kernel_s=steps.later_s * term.steps)
                times[index] = times[index] + own[index] / layout.directions * lost
            continue
        shares = (0.0, 1.0) if term.purpose == "kv-gradients" else _shares(term.purpose)
        times = [time + share * term.calls * seconds for time, share in zip(times, shares, strict=True)]
    if setting.program.dispatch == "eager":
        call_s = setting.constants.eager_attention_call_s
        host = passes * eager_attention_seconds(layout.chunks, layout.exchange, call_s=call_s)
        return np.maximum(times[0], host), np.maximum(times[1], BACKWARD_LAUNCHES * host)
    return times[0], times[1]


def _shares(purpose: str) -> tuple[float, float]:
    """Return the shares of a term's calls in the forward and in the backward pass, as docs/step.md counts them."""
    return (1 / 3, 2 / 3) if purpose.startswith(("ulysses", "kv-halo")) else (1 / 2, 1 / 2)
