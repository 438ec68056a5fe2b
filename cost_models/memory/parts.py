"""Memory of one step on one device, by part, at the moment that needs most.

The total is the executable's own need: argument + output + temp - alias, with donated state. It is persistent state plus the
largest of the moments of memory.liveness. A part that the binding moment does not hold is 0, so the parts add up to the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Floats, Layout
from cost_models.memory.experts import ExpertBackward
from cost_models.memory.limit import limit_bytes
from cost_models.memory.liveness import FP32_BYTES, LayerBackward
from cost_models.memory.loss import Loss
from cost_models.memory.saved_tensors import on_device_bytes
from cost_models.parts.memory import STEP_MEMORY
from cost_models.parts.part import keys
from lcplan.spec.layers import LayerKind

PHASES: tuple[str, ...] = (
    "loss",
    "feed_forward_backward",
    "stream_backward",
    "attention_backward",
    "embedding_backward",
    "update",
    "loops",
)
"""Moments that can need most: see cost_models.memory.liveness. On TPU ``loops`` covers all of a layer's backward pass."""


@dataclass(frozen=True)
class StepMemory:
    """Memory parts of the step of docs/step.md; columns of shape ``[n]`` in bytes per device.

    Persistent state and the largest of the moments that ``phases`` lists add up to argument + output + temp - alias of the
    executable.

    Source: docs/step.md; memory analyses of compiled steps (jax 0.10.1).
    """

    layout: Layout
    squeezed: bool = False
    """Whether XLA rematerialises to save memory (``cost_models.memory.limit``)."""

    _late: ClassVar[bool] = True
    """Whether a layer's gradients are reduced during the next one."""

    @cached_property
    def _vectors(self) -> float:
        """Elements of norms and biases, which no axis splits (biases that tensor splits are counted whole)."""
        return float(self.layout.setting.model.vector_parameters)

    @cached_property
    def _elements(self) -> Floats:
        """Parameters on one device: matrices are split over fsdp x context x tensor, vectors are not split."""
        return (self.layout.setting.model.parameters - self._vectors) / self.layout.state_shards + self._vectors

    @cached_property
    def _layer_elements(self) -> Floats:
        """The layers' share of ``_elements``."""
        model = self.layout.setting.model
        return model.matrix_parameters / self.layout.state_shards + (model.vector_parameters - model.d_model)

    @cached_property
    def params(self) -> Floats:
        """Parameters that the optimizer updates, in fp32: ``4 P / (f c e t)``, norms and biases unsplit [bytes per device]."""
        return self.layout.state.master * self._elements

    @cached_property
    def optimizer(self) -> Floats:
        """The optimizer's moments, split like the parameters [bytes per device]."""
        return self.layout.state.moments * self._elements

    @cached_property
    def batch(self) -> Floats:
        """Token ids, targets and, for packed sequences, document ids of all microbatches in int32 [bytes per device]."""
        arrays = 2.0 if self.layout.setting.workload.document_len is None else 3.0
        return 4.0 * arrays * self.layout.tokens * self.layout.microbatches

    @cached_property
    def saved_activations(self) -> Floats:
        """Tensors that live from the forward to the backward pass [bytes per device].

        They are the residual stream entering each layer, the tensors that the remat policy keeps, and document ids of all
        ranks.
        """
        kept = on_device_bytes(self.layout) * (self.layout.held_bytes / self.layout.activation_bytes)
        if self.layout.setting.workload.document_len is None:
            return kept
        return kept + 4.0 * self.layout.tokens * self.layout.context

    @cached_property
    def _summed(self) -> Floats:
        """Gradients of earlier microbatches, and the head, transposed once for all of them unless it is the embedding."""
        state = self.layout.state
        turned = 0.0 if self.layout.setting.model.tied_embeddings else self._table
        differentiated = np.where(state.copies > 0, state.copies, state.master)
        return (state.sums * self._elements + differentiated * turned) * (self.layout.microbatches > 1)

    @cached_property
    def _table(self) -> Floats:
        """Elements of a device's shard of the embedding or of the head."""
        model = self.layout.setting.model
        return model.vocab * model.d_model / self.layout.state_shards

    @cached_property
    def _layers(self) -> Floats:
        """Gradients of all layers of this microbatch, and the head's."""
        return self.layout.state.gradient * (self._layer_elements + self._table)

    @cached_property
    def _kinds(self) -> tuple[LayerBackward, ...]:
        """A layer's backward pass for each kind of layers."""
        return tuple(
            (LayerBackward if part.setting.model.routed is None else ExpertBackward)(part, self.squeezed, self._late)
            for part in self.layout.parts
        )

    @cached_property
    def _waiting(self) -> tuple[Floats | float, ...]:
        """Bytes of the other layers in a loop's iteration, for each kind of layers; 0 in a run of one iteration."""
        model = self.layout.setting.model
        sizes = dict(zip(model.layer_kinds, self._kinds, strict=True))
        most: dict[LayerKind, Floats | float] = dict.fromkeys(sizes, 0.0)
        for period, _ in (run for run in model.layer_runs if run.repeats > 1 and len(run.period) > 1):
            whole = reduce(np.add, [sizes[kind].waiting for kind in period])
            most |= {kind: np.maximum(most[kind], whole - sizes[kind].waiting) for kind in period}
        return tuple(most.values())

    def phases(self) -> list[tuple[str, dict[str, Floats]]]:
        """Return the parts of each moment of ``PHASES`` without persistent state, per kind of layers [bytes per device]."""
        moments = self._moments()
        if not self.layout.state.copies.any():
            return moments
        copies = self.layout.state.copies * self._elements
        return [
            (name, held if name == "update" else held | {"gathered_weights": held.get("gathered_weights", 0.0) + copies})
            for name, held in moments
        ]

    def _moments(self) -> list[tuple[str, dict[str, Floats]]]:
        """Return the parts of each moment without a copy of the weights."""
        if self.layout.setting.hardware.kind == "tpu":
            loops = (self._loops(*each) for each in zip(self._kinds, self._waiting, strict=True))
            moments = [*self._outside().items(), *(("loops", held) for held in loops)]
            resident = self._resident()
            return [
                (name, held | {part: held.get(part, 0.0) + size for part, size in resident.items()}) for name, held in moments
            ]
        inside = (self._inside(*each).items() for each in zip(self._kinds, self._waiting, strict=True))
        return [*self._outside().items(), *(phase for phases in inside for phase in phases)]

    def _outside(self) -> dict[str, dict[str, Floats]]:
        """Moments before and after the layers' backward pass."""
        loss = Loss(self.layout)
        grads = self._summed + self._layers
        host = self.layout.setting.hardware.kind == "cpu"  # its schedule fills the layers' gradients with zeros at once
        return {
            "loss": {
                "grads": grads if host else self._summed,
                "saved_activations": self.saved_activations,
                "working_set": loss.streams,
                "logits_loss": loss.logits,
            },
            "embedding_backward": {
                "grads": grads + self.layout.state.gradient * self._table,
                "working_set": self._kinds[0].stream,
                "logits_loss": loss.embedding,
            },
            "update": {"grads": self.layout.state.last_gradient * self._elements},
        }

    def _inside(self, layer: LayerBackward, waiting: Floats | float) -> dict[str, dict[str, Floats]]:
        """Moments of one layer's backward pass; ``waiting`` are the gradients of the other layers of its iteration."""
        in_layer = {"grads": self._summed + self._layers, "saved_activations": self.saved_activations}
        return {
            "feed_forward_backward": {
                **in_layer,
                "working_set": layer.feed_forward,
                "kv_ring": layer.keys_at_rest,
                "gathered_weights": layer.weights,
                "collective_buffers": layer.unreduced + waiting,
            },
            "stream_backward": {
                **in_layer,
                "working_set": layer.stream_products,
                "kv_ring": layer.keys_at_rest,
                "gathered_weights": layer.weights,
                "collective_buffers": layer.products_unreduced + waiting,
            },
            "attention_backward": {
                **in_layer,
                "working_set": layer.attention,
                "kv_ring": layer.keys,
                "gathered_weights": layer.attention_weights,
                "collective_buffers": layer.attention_unreduced + waiting,
            },
        }

    def _loops(self, layer: LayerBackward, waiting: Floats | float) -> dict[str, Floats]:
        """A layer in its iteration of a TPU's loop; ``waiting`` are the copied inputs of the iteration's other layers."""
        return {
            "grads": self._summed + self._layers,
            "saved_activations": self.saved_activations,
            "working_set": layer.loop + waiting,
        }

    def _resident(self) -> dict[str, Floats]:
        """Buffers that live at every moment on TPU.

        They are the layers' fp32 weights, cast once before the loops, and the whole table in which an embedding's gradients add
        up over microbatches (``cost_models.collectives.libtpu_reductions``).
        """
        several = (self.layout.microbatches > 1) & (not self.layout.setting.model.tied_embeddings)
        cast = np.where(self.layout.state.gradient < FP32_BYTES, 0.0, self.layout.gather_bytes)
        return {
            "gathered_weights": cast * self._layer_elements,
            "collective_buffers": FP32_BYTES * Loss(self.layout).table * several,
        }

    def parts(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Return bytes by ``STEP_MEMORY``, their sum [bytes per device], and the binding moment's index into ``PHASES``.

        A program above XLA's limit is rematerialised until it keeps the limit, or nothing more can be saved.
        """
        parts, total, phase = self._at_peak()
        limit = limit_bytes(self.layout, arguments=self.params + self.optimizer + self.batch)
        rows = np.flatnonzero(total > limit)
        if len(rows):
            tight = type(self)(Layout(self.layout.setting, self.layout.table.take(rows)), squeezed=True)
            fewer, least, when = tight._at_peak()
            fewer["working_set"] += np.maximum(limit[rows] - least, 0.0)
            less = np.maximum(least, limit[rows])
            saves = less < total[rows]
            rows = rows[saves]
            total[rows], phase[rows] = less[saves], when[saves]
            for part, size in fewer.items():
                parts[part][rows] = size[saves]
        return parts, total, phase

    def _at_peak(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Return the parts, their sum and the binding moment, each in a new array."""
        held = self.phases()
        sums = np.stack([reduce(np.add, sizes.values()) for _, sizes in held])
        phase = sums.argmax(axis=0)
        parts = {name: np.array(getattr(self, name)) for name in ("params", "optimizer", "batch")}
        parts |= {name: np.zeros(len(self.layout.table)) for name in keys(STEP_MEMORY) if name not in parts}
        for row, (_, sizes) in enumerate(held):
            binds = (phase == row).astype(np.float64)
            for part, size in sizes.items():
                parts[part] += size * binds
        total = self.params + self.optimizer + self.batch + sums.max(axis=0)
        codes = np.array([PHASES.index(name) for name, _ in held], dtype=np.int8)
        return parts, total, codes[phase]
