"""Rollout: sizes of arrays and transfers of one device under each layout, as float64 columns for memory and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.rollout.table import CACHE_LAYOUTS, RolloutTable
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy.attention_kernel import reads_cache_in_place, shortest_chunk

FP32_BYTES = 4.0
KV_BYTES = {"bf16": 2.0, "fp32": 4.0, "fp8": 1.0}
"""Bytes of an element of the cache; fp8 has an fp32 factor per row of a head besides."""


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
    def kinds(self) -> tuple[Rollout, ...]:
        """The rollout of each kind of layer, with the layers of that kind only."""
        parts = self.setting.model.parts
        return tuple(Rollout(replace(self.setting, model=part), self.table) for part in parts) if len(parts) > 1 else (self,)

    @cached_property
    def layer_elements(self) -> Floats:
        """Elements of one layer's gathered matrices; of several kinds of layers the largest [elements]."""
        return max(kind.setting.model.layer_matrix_parameters for kind in self.kinds) / self.layout.tensor

    @cached_property
    def stack_elements(self) -> Floats:
        """Elements of all layers' gathered matrices [elements]."""
        return self.setting.model.matrix_parameters / self.layout.tensor

    @cached_property
    def expert_elements(self) -> Floats:
        """Elements of all layers' experts, shared experts not counted [elements]."""
        model = self.setting.model
        return sum(part.layers * _routed_parameters(part) for part in model.parts) / self.layout.tensor

    @cached_property
    def matrix_elements(self) -> Floats:
        """Elements of all gathered matrices that a decode step reads, without the embedding's rows [elements]."""
        return self.stack_elements + self.setting.model.embedding_parameters / self.layout.tensor

    @cached_property
    def cache_bytes(self) -> Floats:
        """Size of the KV cache in its dtype: ``2 b max(K / t, 1) H`` elements of each layer's slots [bytes per device]."""
        return self._slot_bytes * sum(layers * slots for layers, slots in self.layer_slots)

    @cached_property
    def layer_cache_bytes(self) -> Floats:
        """The part of the cache of one layer with the most slots [bytes per device]."""
        return self._slot_bytes * max(slots for _, slots in self.layer_slots)

    @cached_property
    def layer_slots(self) -> tuple[tuple[int, int], ...]:
        """Layers of each kind, and their slots: prompt and generated tokens, or the window where it is shorter."""
        whole = self.work.seq_len
        return tuple((layers, min(kind.window or whole, whole)) for kind, layers in self.setting.model.layer_kinds.items())

    @cached_property
    def _slot_bytes(self) -> Floats:
        """Keys and values of one slot of one layer, for all sequences [bytes per device]."""
        head_dim = self.setting.model.head_dim
        element = KV_BYTES[self.work.kv_dtype] + (FP32_BYTES / head_dim if self.work.kv_dtype == "fp8" else 0.0)
        return element * 2.0 * self.sequences * self.layout.kv_width

    @cached_property
    def new_bytes(self) -> Floats:
        """Keys and values of one token of every sequence, of all layers, until a step's end writes them [bytes per device]."""
        layers, width = self.setting.model.layers, self.layout.kv_width
        return 2.0 * self.layout.activation_bytes * layers * self.sequences * width

    @cached_property
    def read_bytes(self) -> Floats:
        """Mean of the cache's bytes that attention reads in one decode step [bytes per device]."""
        whole = self.table.cache == CACHE_LAYOUTS.index("whole")
        positions = np.zeros(len(self.table))
        for layers, slots in self.layer_slots:
            mean = mean_read_positions(self.work.prompt, self.work.generate, slots=slots)
            positions = positions + layers * np.where(whole, float(slots), mean)
        return self._slot_bytes * positions

    @cached_property
    def copies_layers(self) -> bool:
        """Whether a decode step copies each layer's keys and values out of the stack before it reads them."""
        hardware, head_dim = self.setting.hardware, self.setting.model.head_dim
        return not reads_cache_in_place(hardware.kind, head_dim, amd=hardware.vendor == "amd")

    @cached_property
    def copies_weights(self) -> Bools:
        """Rows whose decode step copies each layer's matrices out of their stack before it multiplies with them.

        XLA for TPU reads them inside the product; XLA for GPU copies an operand of a product that is a part of an array, which
        the compiled step of Qwen3-1.7B on H100 shows for each matrix. A gathered matrix is an array of its own.
        """
        return ~self.gathers & (self.setting.hardware.kind == "gpu")


def _routed_parameters(model: ModelSpec) -> int:
    """Parameters of the routed experts of one layer."""
    return model.routed.count * model.expert_matrix_parameters if model.routed else 0


def mean_read_positions(prompt: int, generate: int, *, slots: int | None = None) -> float:
    """Mean over decode steps of the slots that programs for powers of two read.

    ``sum over lengths of min(length, slots) * (steps at that length) / G``; the lengths are the powers of two above the prompt,
    the last cut to P + G. The first step takes the prompt's last token.

    Parameters
    ----------
    prompt : int
        P [tokens], at least 1.
    generate : int
        G [tokens], at least 1.
    slots : int, optional
        Slots of the cache; all P + G by default [tokens].

    Returns
    -------
    float
        Positions [tokens].

    Notes
    -----
    Source: strategies.rollout.sample_spec.cache_lengths, which makes one program for each.

    Examples
    --------
    >>> mean_read_positions(256, 1024)  # 257 steps read 512, 512 read 1024, 255 read 1280
    959.25
    """
    last, total, first, filled = prompt + generate, 0, prompt - 1, prompt
    while first < last - 1:
        length = min(1 << filled.bit_length(), last)
        after = min(length, last - 1)
        total += min(length, slots or last) * (after - first)
        first, filled = after, length
    return total / generate
