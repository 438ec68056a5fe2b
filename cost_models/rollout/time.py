"""Time of a rollout by part: prefill as in training's forward pass, then decode steps that wait for memory and links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from cost_models.collectives.group_span import span_of
from cost_models.collectives.network import call_cost
from cost_models.compute.kernels import gemm_seconds
from cost_models.inputs.layout import Floats
from cost_models.parts.part import keys
from cost_models.parts.time import ROLLOUT_TIME
from cost_models.rates.published import Rates
from cost_models.rollout.layout import FP32_BYTES, Rollout
from cost_models.time.device_work import StepWork
from lcplan.spec.collective import Op
from lcplan.strategy import AxisName

DECODE_KERNELS = 28.0
"""Kernels of one layer in the compiled decode step of Qwen3-1.7B on H100 (jax 0.10.1): ten copies of parameters and of the
layer's number out of stacks, four products, four norms with rotations, the cache's kernel and four around it, the gate's
product, two sums with the stream, the new keys and values, and the loop's counter."""
COPIED_PASSES = 3.0
"""Passes over a part of an array that is copied before it is read: read, written, read."""
EXPERT_WIDTHS = 6.0
"""Passes over rows of an expert's width: gate, up and their product, each written and read."""
LOGIT_PASSES = 3.0
"""Passes over fp32 logits: written, read for the largest, read for sums of probabilities (strategies/rollout/next_token)."""
CAST_BYTES = 4.0
"""Further traffic of a weight that is stored in fp32 and multiplied in bf16: its bf16 copy is written and read."""


@dataclass(frozen=True)
class RolloutTime:
    """Time parts of each rollout layout; columns of shape ``[n]`` in seconds per rollout.

    Source: docs/sampling.md, table of time.
    """

    rollout: Rollout
    rates: Rates

    @cached_property
    def _work(self) -> StepWork:
        """The prompts' forward pass, priced as in the train step."""
        return StepWork(self.rollout.layout, self.rates)

    @property
    def _steps(self) -> float:
        return float(self.rollout.work.generate)

    @property
    def _layers(self) -> float:
        return float(self.rollout.setting.model.layers)

    def _call(self, op: Op, axes: tuple[AxisName, ...], size_bytes: Floats) -> Floats:
        """Time of one collective [s]; zero where the axes have one member."""
        layout = self.rollout.layout
        span = span_of(layout, axes)
        cost = call_cost(op, span, hardware=layout.setting.hardware, rates=self.rates)
        return np.where(span.members > 1, cost.seconds(size_bytes), 0.0)

    def _gather(self, elements: Floats) -> Floats:
        """Time of fsdp's gather of ``elements``, in the gather dtype [s]."""
        layout = self.rollout.layout
        hardware = layout.setting.hardware
        closed = hardware.torus is None or all(hardware.torus_wrap or (False,))
        share = 1.0 if closed else layout.setting.constants.open_torus_gather
        return self._call("all-gather", ("fsdp",), layout.gather_bytes * elements / share)

    @cached_property
    def prefill(self) -> Floats:
        """Products, attention, memory-bound work and collectives of the prompts [s per rollout]."""
        rollout = self.rollout
        ends = rollout.gathers * self._gather(self._table)
        return reduce(np.add, (self._prefill_of(kind) for kind in rollout.kinds), ends)

    def _prefill_of(self, kind: Rollout) -> Floats:
        """The same for layers of one kind."""
        work, layout = StepWork(kind.layout, self.rates), kind.layout
        layer = work.layer_forward_gemm + work.forward_attention.total_s + work.layer_forward_memory
        gathers = kind.gathers * self._gather(kind.layer_elements)
        return kind.setting.model.layers * (layer + self._stream(layout.tokens) + gathers)

    @property
    def _table(self) -> Floats:
        return self.rollout.table_elements

    def _stream(self, tokens: Floats) -> Floats:
        """A layer's gathers and scatters of the residual stream over tensor: in and out of attention and feed-forward."""
        layout = self.rollout.layout
        size = layout.activation_bytes * tokens * layout.setting.model.d_model
        both = self._call("all-gather", ("tensor",), size) + self._call("reduce-scatter", ("tensor",), size)
        return 2.0 * both

    @cached_property
    def weights(self) -> Floats:
        """Reads of every matrix once a step, or its product where that takes longer [s per rollout].

        Gathered matrices are written first.
        """
        rollout, layout = self.rollout, self.rollout.layout
        tables = np.where(rollout.gathers, 2.0, 1.0) * self._table
        cast = np.where(layout.gather_bytes > layout.activation_bytes, CAST_BYTES, 0.0)
        each = layout.gather_bytes * np.where(rollout.gathers, 2.0, 1.0) + cast
        copied = rollout.copies_weights * (COPIED_PASSES - 1.0) * layout.gather_bytes * rollout.stack_elements
        read = each * (rollout.stack_elements + tables) + copied + self._expert_rows
        flop = 2.0 * rollout.sequences * (rollout.stack_elements + self._table)
        rates = {"flop_per_s": self.rates.gemm.value, "hbm_bytes_per_s": self.rates.hbm.value}
        return self._steps * gemm_seconds(flop, read, **rates)

    @property
    def _expert_rows(self) -> Floats:
        """Traffic of the rows of all experts in a step [bytes]: every expert takes a row of each sequence, used or not.

        Rows of D are written and read before the products and after them, and two rows of F are written and read, and their
        product. So each expert's matrices are multiplied with all sequences (strategies/rollout/sample_spec.py, ``decoding``).
        """
        layout, total = self.rollout.layout, np.zeros(len(self.rollout.table))
        for kind in self.rollout.kinds:
            model = kind.setting.model
            if model.routed is not None:
                width = 4.0 * model.d_model + EXPERT_WIDTHS * model.routed.d_ff / layout.tensor
                total = total + model.layers * model.routed.count * width
        return layout.activation_bytes * self.rollout.sequences * total

    @cached_property
    def kv_cache(self) -> Floats:
        """Reads of the cache, with the copy of a layer or of a cache that is not donated [s per rollout]."""
        rollout = self.rollout
        passes = COPIED_PASSES if rollout.copies_layers else 1.0
        copied = 0.0 if rollout.work.donate else 2.0 * rollout.cache_bytes
        return self._steps * (passes * rollout.read_bytes + copied) / self.rates.hbm.value

    @cached_property
    def comm_fsdp(self) -> Floats:
        """Gathers in each step, or of all matrices once; products do not overlap with them [s per rollout]."""
        rollout = self.rollout
        layers = (kind.setting.model.layers * self._gather(kind.layer_elements) for kind in rollout.kinds)
        step = reduce(np.add, layers, 2.0 * self._gather(self._table))
        return np.where(rollout.gathers, self._steps * step, rollout.gathers_once * self._gather(rollout.matrix_elements))

    @cached_property
    def comm_tensor(self) -> Floats:
        """Collectives of the stream in every layer and step, of embedding and head, and of key/value weights [s per rollout].

        The last exist where t > K.
        """
        rollout, layout, model = self.rollout, self.rollout.layout, self.rollout.setting.model
        rows = layout.activation_bytes * rollout.sequences * model.d_model
        ends = self._call("reduce-scatter", ("tensor",), rows) + self._call("all-gather", ("tensor",), rows)
        shared = layout.gather_bytes * 2.0 * model.d_model * model.kv_heads * model.head_dim
        spread = layout.kv_spread * self._call("all-gather", ("tensor",), shared)
        return self._steps * (self._layers * (self._stream(rollout.sequences) + spread) + ends)

    @cached_property
    def sampling(self) -> Floats:
        """Passes over the logits of the next tokens [s per rollout]."""
        size = FP32_BYTES * self.rollout.sequences * self.rollout.layout.vocab_width
        return self._steps * LOGIT_PASSES * size / self.rates.hbm.value

    @cached_property
    def overhead(self) -> Floats:
        """The minimum duration of a decode step's kernels [s per rollout]."""
        return np.full(len(self.rollout.table), self._steps * self._layers * DECODE_KERNELS * self._work.floor_s)

    def parts(self) -> dict[str, Floats]:
        """Seconds by ``ROLLOUT_TIME`` [s per rollout]."""
        return {name: getattr(self, name) for name in keys(ROLLOUT_TIME)}
