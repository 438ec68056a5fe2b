"""Rollout: sizes of arrays and transfers of one device under each layout, as float64 columns for memory and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.rollout.table import CACHE_LAYOUTS, RolloutTable
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy.attention_kernel import shortest_chunk

FP32_BYTES = 4.0


@dataclass(frozen=True)
class Rollout:
    """Sizes of each of ``n`` rollout layouts; arrays have shape ``[n]``.

    ``d``, ``f``, ``t`` are the rollout's data, fsdp and tensor axes. Symbols in addition to docs/notation.md: ``P`` prompt
    tokens, ``G`` generated tokens, ``S = P + G`` positions, ``b`` sequences of a data x fsdp rank.

    Source: docs/sampling.md.
    """

    setting: Setting
    table: RolloutTable

    @property
    def work(self) -> SampleWorkload:
        """The workload of the rollout."""
        work = self.setting.workload.sample
        assert work is not None, "a rollout is priced for a workload that samples"
        return work

    @cached_property
    def layout(self) -> Layout:
        """The layout of the prompts on the rollout's mesh."""
        work, positions = self.work.train_view(self.work.prompt), shortest_chunk(self.work.seq_len, 1)
        return Layout(replace(self.setting, workload=work, shortest_chunk=positions), self.table.sampled)

    @cached_property
    def gathers(self) -> Bools:
        """Rows that gather a layer in each decode step."""
        return self.table.is_layout("gathered-per-step")

    @cached_property
    def gathers_once(self) -> Bools:
        """Rows that gather before the loop and keep the copy in addition to the shards."""
        return self.table.is_layout("gathered-once")

    @cached_property
    def sequences(self) -> Floats:
        """Sequences of a device's data x fsdp rank: ``b`` [sequences]."""
        return self.work.batch / (self.layout.data * self.layout.fsdp)

    @cached_property
    def vectors(self) -> float:
        """Elements of norms and biases, which are replicated [elements]."""
        model = self.setting.model
        return float(model.layers * model.layer_vector_parameters + model.d_model)

    @cached_property
    def table_elements(self) -> Floats:
        """Elements of the gathered embedding, or of the head: ``V D / t`` [elements]."""
        return self.setting.model.vocab * self.setting.model.d_model / self.layout.tensor

    @cached_property
    def layer_elements(self) -> Floats:
        """Elements of one layer's gathered matrices [elements]."""
        return self.setting.model.layer_matrix_parameters / self.layout.tensor

    @cached_property
    def matrix_elements(self) -> Floats:
        """Elements of all gathered matrices that a decode step reads, without the embedding's rows [elements]."""
        tables = self.setting.model.embedding_parameters / self.layout.tensor
        return self.setting.model.layers * self.layer_elements + tables

    @cached_property
    def cache_bytes(self) -> Floats:
        """Size of the KV cache in its dtype: ``2 L b max(K / t, 1) S H`` elements [bytes per device]."""
        return self._cached(float(self.work.seq_len))

    def _cached(self, positions: Floats | float) -> Floats:
        element = 2.0 if self.work.kv_dtype == "bf16" else 4.0
        return element * 2.0 * self.setting.model.layers * self.sequences * self.layout.kv_width * positions

    @cached_property
    def read_bytes(self) -> Floats:
        """Mean of the cache's bytes that attention reads in one decode step [bytes per device]."""
        whole = self.table.cache == CACHE_LAYOUTS.index("whole")
        mean = mean_read_positions(self.work.prompt, self.work.generate)
        return self._cached(np.where(whole, float(self.work.seq_len), mean))


def mean_read_positions(prompt: int, generate: int) -> float:
    """Mean over decode steps of the positions that programs for powers of two read.

    ``sum over lengths of length * (steps at that length) / G``; the lengths are the powers of two above the prompt, the last
    cut to P + G.

    Parameters
    ----------
    prompt : int
        P [tokens], at least 1.
    generate : int
        G [tokens], at least 1.

    Returns
    -------
    float
        Positions [tokens].

    Notes
    -----
    Source: strategies.rollout.sample_spec.cache_lengths, which makes one program for each.

    Examples
    --------
    >>> mean_read_positions(256, 1024)  # 256 steps read 512, 512 read 1024, 256 read 1280
    960.0
    """
    last, total, filled = prompt + generate, 0, prompt
    while filled < last:
        length = min(1 << filled.bit_length(), last)
        total += length * (length - filled)
        filled = length
    return total / generate
