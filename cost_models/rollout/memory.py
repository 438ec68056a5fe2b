"""Memory of a rollout's program on one device: parameters by layout, the cache, and the arrays of a decode step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Floats
from cost_models.parts.memory import ROLLOUT_MEMORY
from cost_models.parts.part import keys
from cost_models.rollout.layout import FP32_BYTES, Rollout

VECTOR_COLUMNS = 128.0
"""Columns of a TPU's vector unit, which the last dimension of an array fills (jax-ml.github.io/scaling-book/tpus)."""
PREFILL_TOKENS = 2048.0
"""Prompt tokens of a device that go through a layer at a time (docs/sampling.md)."""
ROLLOUT_PHASES: tuple[str, ...] = ("embedding", "layers", "prefill", "head")


@dataclass(frozen=True)
class RolloutMemory:
    """Memory parts of each rollout layout; columns of shape ``[n]`` in bytes per device.

    Source: docs/sampling.md, table of memory.
    """

    rollout: Rollout

    @cached_property
    def params(self) -> Floats:
        """The given parameters: fp32 shards over fsdp, or whole matrices in the gather dtype [bytes per device]."""
        layout, rollout = self.rollout.layout, self.rollout
        sharded = rollout.gathers | rollout.gathers_once
        each = np.where(sharded, FP32_BYTES / layout.fsdp, layout.gather_bytes)
        return each * rollout.matrix_elements + FP32_BYTES * rollout.vectors

    @cached_property
    def gathered_params(self) -> Floats:
        """The copy of the gathered parameters that lives as long as the loop [bytes per device]."""
        return self.rollout.gathers_once * self.rollout.layout.gather_bytes * self.rollout.matrix_elements

    @cached_property
    def second_cache(self) -> Floats:
        """The second cache of a step that may not write into the given one [bytes per device]."""
        return self.rollout.cache_bytes * (not self.rollout.work.donate)

    @cached_property
    def _table(self) -> Floats:
        """The gathered embedding or head, and this device's shard of it in gather dtype."""
        rollout, layout = self.rollout, self.rollout.layout
        return rollout.gathers * layout.gather_bytes * rollout.table_elements * (1.0 + 1.0 / layout.fsdp)

    @cached_property
    def _layer(self) -> Floats:
        """A layer's matrices, gathered in prefill and decode."""
        return self.rollout.gathers * self.rollout.layout.gather_bytes * self.rollout.layer_elements

    @cached_property
    def _read_layer(self) -> Floats:
        """A layer's matrices that a decode step gathers or copies out of their stack."""
        made = self.rollout.gathers | self.rollout.copies_weights
        return made * self.rollout.layout.gather_bytes * self.rollout.layer_elements

    @cached_property
    def _rows(self) -> Floats:
        """Activations of one token of every sequence: the stream, gate, up and their product, queries."""
        return self._activations(self.rollout.sequences, decode=True)

    def _activations(self, tokens: Floats, *, decode: bool = False) -> Floats:
        """The stream, queries and the feed-forward's arrays of ``tokens``, in the kind of layer with the most of them.

        With experts a row of D comes in and goes out, in prefill for each choice of a token, in a decode step for each expert.
        """
        layout = self.rollout.layout
        width: Floats | float = 0.0
        for kind in self.rollout.kinds:
            model = kind.setting.model
            routed = model.routed
            rows = 1.0 if routed is None else float(routed.count if decode else routed.active)
            each = 3.0 * (model.d_ff if routed is None else routed.d_ff) / layout.tensor
            width = np.maximum(width, rows * (each + (0.0 if routed is None else 2.0 * model.d_model)))
        return layout.held_bytes * tokens * (4.0 * self.rollout.setting.model.d_model + width + 2.0 * layout.query_width)

    @cached_property
    def _expert_copies(self) -> Floats:
        """The experts of all layers in the order of a TPU's ragged product, which XLA makes before the loops of prefill.

        Rows of an expert's width fill the columns of the vector unit: Qwen3-30B-A3B over tensor=8 has 96 of 128 features, and
        the compiled prefill on v4 has 8.5 GiB of temporaries.
        """
        layout, rollout = self.rollout.layout, self.rollout
        total = np.zeros(len(rollout.table))
        for kind in rollout.kinds:
            model = kind.setting.model
            if model.routed is not None and rollout.setting.hardware.kind == "tpu":
                width = np.ceil(model.routed.d_ff / layout.tensor / VECTOR_COLUMNS) * VECTOR_COLUMNS
                total = total + (model.up_matrices + 1) * model.layers * model.routed.count * model.d_model * width
        return layout.gather_bytes * total * ~rollout.gathers

    @cached_property
    def _logits(self) -> Floats:
        return FP32_BYTES * self.rollout.sequences * self.rollout.layout.vocab_width

    def phases(self) -> dict[str, dict[str, Floats]]:
        """Bytes of each of ``ROLLOUT_PHASES`` beyond parameters and cache [bytes per device]."""
        rollout = self.rollout
        group = np.clip(PREFILL_TOKENS / rollout.work.prompt, rollout.layout.tensor, rollout.sequences)
        return {
            "embedding": {"gathered_weights": self._table, "working_set": self._rows},
            "layers": {
                "gathered_weights": self._read_layer,
                "layer_cache": rollout.layer_cache_bytes * rollout.copies_layers,
                "working_set": self._rows + rollout.new_bytes,
            },
            "prefill": {
                "gathered_weights": self._layer,
                "expert_copies": self._expert_copies,
                "working_set": self._activations(group * rollout.work.prompt),
            },
            "head": {"gathered_weights": self._table, "logits": self._logits, "working_set": self._rows + rollout.new_bytes},
        }

    def parts(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Bytes by ``ROLLOUT_MEMORY``, their sum [bytes per device], and the binding moment's index into ``ROLLOUT_PHASES``."""
        held = self.phases()
        sums = np.stack([reduce(np.add, sizes.values()) for sizes in held.values()])
        phase = sums.argmax(axis=0)
        parts = {name: np.zeros(len(self.rollout.table)) for name in keys(ROLLOUT_MEMORY)}
        parts |= {"params": self.params, "gathered_params": self.gathered_params, "second_cache": self.second_cache}
        parts["kv_cache"] = self.rollout.cache_bytes
        for row, sizes in enumerate(held.values()):
            for part, size in sizes.items():
                parts[part] = parts[part] + size * (phase == row)
        return parts, reduce(np.add, parts.values()), phase.astype(np.int8)
