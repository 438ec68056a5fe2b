"""Time of a rollout by part: prefill as in training's forward pass, then decode steps that wait for memory and links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.collectives.group_span import span_of
from cost_models.collectives.network import call_cost
from cost_models.compute.kernels import gemm_seconds
from cost_models.inputs.layout import Floats
from cost_models.parts.part import keys
from cost_models.parts.time import ROLLOUT_TIME
from cost_models.rates.published import Rates
from cost_models.rollout.layout import Rollout
from cost_models.time.device_work import StepWork
from lcplan.spec.collective import Op
from lcplan.strategy import AxisName

DECODE_KERNELS = 14.0
"""Kernels of one layer's decode step, counted in strategies/rollout/decode.py after fusion: two norms, products for query, for
keys and values, output, gate, up and down, two rotations, the cache's write and its layer's slice, scores with softmax, values,
the gate's product."""
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
        work, rollout, layout = self._work, self.rollout, self.rollout.layout
        layer = work.layer_forward_gemm + work.forward_attention.total_s + work.layer_forward_memory
        gathers = rollout.gathers * (self._layers * self._gather(rollout.layer_elements) + 2.0 * self._gather(self._table))
        return self._layers * (layer + self._stream(layout.tokens)) + gathers

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
        elements = self._layers * rollout.layer_elements + tables
        cast = np.where(layout.gather_bytes > layout.activation_bytes, CAST_BYTES, 0.0)
        each = layout.gather_bytes * np.where(rollout.gathers, 2.0, 1.0) + cast
        flop = 2.0 * rollout.sequences * (self._layers * rollout.layer_elements + self._table)
        rates = {"flop_per_s": self.rates.gemm.value, "hbm_bytes_per_s": self.rates.hbm.value}
        return self._steps * gemm_seconds(flop, each * elements, **rates)

    @cached_property
    def kv_cache(self) -> Floats:
        """Reads of the cache in each pass over a layer of it, and the copy of a cache that is not donated [s per rollout]."""
        rollout = self.rollout
        passes = rollout.setting.program.cache_passes
        copied = 0.0 if rollout.work.donate else 2.0 * rollout.cache_bytes
        return self._steps * (passes * rollout.read_bytes + copied) / self.rates.hbm.value

    @cached_property
    def comm_fsdp(self) -> Floats:
        """Gathers in each step, or of all matrices once; products do not overlap with them [s per rollout]."""
        rollout = self.rollout
        step = self._layers * self._gather(rollout.layer_elements) + 2.0 * self._gather(self._table)
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
    def overhead(self) -> Floats:
        """The minimum duration of a decode step's kernels [s per rollout]."""
        return np.full(len(self.rollout.table), self._steps * self._layers * DECODE_KERNELS * self._work.floor_s)

    def parts(self) -> dict[str, Floats]:
        """Seconds by ``ROLLOUT_TIME`` [s per rollout]."""
        return {name: getattr(self, name) for name in keys(ROLLOUT_TIME)}
