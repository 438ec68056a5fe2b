"""Time of a forward pass only, on the mesh and in the microbatches of a train step: log-probabilities of given tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from cost_models.attention.work import exposed_hop_seconds
from cost_models.inputs.kernel_groups import kernel_groups
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.parts.time import EXPERT_ROWS, WEIGHTS
from cost_models.rates.published import rates_for
from cost_models.time.step import StepTime

EXCHANGES = {"kv-gather": 1.0, "ulysses-query": 2.0, "ulysses-key-value": 1.0}
"""Calls of one layer's forward pass: keys and values are gathered or exchanged once; queries and outputs once each."""
HALO_PASSES = 3.0
"""A train step sends a halo forward, again, and back as gradients."""
HEAD_PRODUCTS = 3.0
"""Products of the head in a train step: logits, and the gradients of rows and head. A forward pass has the first."""


@dataclass(frozen=True)
class ForwardTime(StepTime):
    """Time of the forward passes of all microbatches; columns of shape ``[n]`` in seconds.

    Source: docs/rl.md; the train step's own times and collectives, of which it takes the forward ones.
    """

    @property
    def _kinds(self) -> tuple[ForwardTime, ...]:
        parts = self.layout.parts
        return (self,) if len(parts) == 1 else tuple(ForwardTime(part, self.rates, self._network) for part in parts)

    @cached_property
    def seconds(self) -> Floats:
        """All kinds of layers with their collectives, embedding and head [s]."""
        return reduce(np.add, [kind._own for kind in self._kinds])

    @property
    def _own(self) -> Floats:
        layers = self.passes * self.layer_forward + self.loss / HEAD_PRODUCTS
        outside = self._of("loss", "loss-maximum", "loss-sums") * np.where(self.layout.tensor > 1, 1.0, 0.0)
        stream = self.stream_forward / (1.0 + self.repeats)
        return layers + self._weights_seconds + stream + outside + self._context_seconds + self._expert_seconds

    @property
    def _weights_seconds(self) -> Floats:
        """One gather of every weight: layers' behind the previous layer's forward pass, tables' exposed."""
        window = self._overlaps * (self.layer_forward_gemm + self.layer_forward_memory)
        total = np.zeros(len(self.layout.table))
        for term, seconds in self.terms_with_seconds:
            if term.op == "all-gather" and term.purpose in WEIGHTS:
                total = total + np.minimum(term.calls, self.passes) * np.maximum(seconds - window, 0.0)
            elif term.op == "all-gather" and term.purpose == "tables":
                total = total + term.calls * seconds
        return total

    @property
    def _context_seconds(self) -> Floats:
        total = np.zeros(len(self.layout.table))
        for term, seconds in self.terms_with_seconds:
            if term.purpose == "kv-ring":
                hops = self.passes * (self.layout.chunks - 1) * (term.calls > 0)
                hidden = self._overlaps * self.forward_attention.later_s
                total = total + hops * exposed_hop_seconds(hidden, seconds)
            elif term.purpose == "kv-halo":
                total = total + term.calls / HALO_PASSES * seconds
            elif term.purpose in EXCHANGES:
                total = total + np.minimum(term.calls, self.passes * EXCHANGES[term.purpose]) * seconds
        return total

    @property
    def _expert_seconds(self) -> Floats:
        """Dispatch and combine: forward, again where the step repeats them, and backward cost the same."""
        return self._of(*EXPERT_ROWS) / (2.0 + self.repeats)


def forward_seconds(setting: Setting, table: StrategyTable) -> Floats:
    """Return the time of a forward pass over the batch of a train step.

    It computes log-probabilities: each layer's forward work, one gather of every weight, and the head's logits.

    Parameters
    ----------
    setting : Setting
        Model, machine and the train step's workload.
    table : StrategyTable
        Strategies of the train step.

    Returns
    -------
    ndarray, shape [n]
        Time [s per pass].

    Notes
    -----
    Source: ``cost_models.time.step``. Ignores contention, which a forward pass has less of than the step.
    """
    found = np.zeros(len(table))
    for group, rows in kernel_groups(setting, table):
        found[rows] = ForwardTime(Layout(group, table.take(rows)), rates_for(group)).seconds
    return found
