"""Memory of the pipelined step: stages in lockstep, one program for all of them (docs/step/pipeline.md).

Every device needs the same: the program has as many slots as the first stage fills. The total does not depend on the number
of microbatches, except for the ids of their tokens, and for schedules whose backward passes begin after all forward passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.stages import Stages
from cost_models.memory.liveness import FP32_BYTES, LayerBackward
from cost_models.memory.loss import Loss
from cost_models.memory.parts import StepMemory
from cost_models.memory.saved_tensors import on_device_bytes

CARRIED = 3.0
"""Streams of a microbatch that live throughout a tick: the inputs of both directions, and an output on its way."""


@dataclass(frozen=True)
class LockstepMemory(StepMemory):
    """Memory parts of the pipelined step; columns of shape ``[n]`` in bytes per device.

    Source: strategies/pipeline; buffer assignments of compiled steps (jax 0.10.1).
    """

    _late: ClassVar[bool] = False

    @cached_property
    def stages(self) -> Stages:
        """How the stages share the work."""
        return Stages(self.layout)

    @cached_property
    def _vectors(self) -> float:
        return float(self.layout.setting.model.d_model)

    @cached_property
    def _layer_elements(self) -> Floats:
        """A stage's layers, with the empty ones that make stages equal."""
        model = self.layout.setting.model
        vectors = model.vector_parameters - model.d_model
        return (model.matrix_parameters / self.layout.state_shards + vectors) * self.stages.padded / self.stages.pipe

    @cached_property
    def _elements(self) -> Floats:
        tables = self.layout.setting.model.embedding_parameters / self.layout.state_shards / self.stages.pipe
        return self._layer_elements + tables + self._vectors

    @cached_property
    def stream(self) -> Floats:
        """A microbatch's residual stream on a device: ``a ts D`` [bytes per device]."""
        return self.layout.held_bytes * self.layout.stream_tokens * self.layout.setting.model.d_model

    @cached_property
    def saved_activations(self) -> Floats:
        """Slots of saved tensors of a chunk, and the rows of the last stage that wait for their loss [bytes per device]."""
        stages = self.stages
        kept = on_device_bytes(self.layout) * (self.layout.held_bytes / self.layout.activation_bytes)
        documents = 0.0 if self.layout.setting.workload.document_len is None else 4.0 * self.layout.tokens * self.layout.context
        return kept * stages.held_share + stages.outputs * self.stream / stages.pipe + documents

    @cached_property
    def _tables(self) -> Floats:
        """Elements of embedding and head (one table if tied), gathered over pipe."""
        return self._table * (1.0 if self.layout.setting.model.tied_embeddings else 2.0)

    @cached_property
    def _summed(self) -> Floats:
        """fp32 sums of gradients over microbatches, of tables those of all stages' columns."""
        return FP32_BYTES * (self._layer_elements + self._tables)

    @cached_property
    def _weights(self) -> Floats:
        """Both tables in fp32, gathered over pipe once a step [bytes per device].

        GPUs keep a transposed head in place of the gathered one. TPUs keep both, and cast the stage's weights before the loops.
        """
        tables = FP32_BYTES * self._tables
        if self.layout.setting.hardware.kind != "tpu":
            return tables
        turned = 0.0 if self.layout.setting.model.tied_embeddings else FP32_BYTES * self._table
        return tables + turned + self.layout.gather_bytes * self._layer_elements

    def phases(self) -> list[tuple[str, dict[str, Floats]]]:
        """Return the parts of each moment without persistent state, per kind of layers [bytes per device]."""
        held: dict[str, Floats] = {
            "grads": self._summed,
            "saved_activations": self.saved_activations,
            "gathered_weights": self._weights,
            "working_set": CARRIED * self.stream,
        }
        inside = self._on_tpu if self.layout.setting.hardware.kind == "tpu" else self._inside
        layers = [inside(*each) for each in zip(self._kinds, self._waiting, strict=True)]
        moments = [moment for moments in (self._outside(), *layers) for moment in moments.items()]
        zero = np.zeros(len(self.layout.table))
        ticks = [
            (name, {part: sizes.get(part, zero) + held.get(part, zero) for part in held | sizes}) for name, sizes in moments
        ]
        return [*ticks, ("update", {"grads": FP32_BYTES * self._elements})]

    def _outside(self) -> dict[str, dict[str, Floats]]:
        loss = Loss(self.stages.dealt)
        return {
            "loss": {"working_set": loss.streams, "logits_loss": loss.logits},
            "embedding_backward": {
                "grads": FP32_BYTES * self._table,
                "working_set": self.stream + self._kinds[0].stream / self.stages.pipe,
                "logits_loss": loss.embedding,
            },
        }

    def _inside(self, layer: LayerBackward, waiting: Floats | float) -> dict[str, dict[str, Floats]]:
        return {
            name: {part: size for part, size in sizes.items() if part not in ("grads", "saved_activations")}
            for name, sizes in super()._inside(layer, waiting).items()
        }

    def _on_tpu(self, layer: LayerBackward, waiting: Floats | float) -> dict[str, dict[str, Floats]]:
        """A layer in its iteration of a TPU's loop."""
        return {"loops": {"working_set": layer.loop + waiting}}


@dataclass(frozen=True)
class OwnMemory:
    """Memory of lcplan's own step with and without a pipeline; columns of shape ``[n]`` in bytes per device.

    Source: ``StepMemory`` and ``LockstepMemory``.
    """

    layout: Layout

    def parts(self) -> tuple[dict[str, Floats], Floats, NDArray[np.int8]]:
        """Return bytes by ``STEP_MEMORY``, their sum [bytes per device], and the binding moment's index into ``PHASES``."""
        piped = self.layout.table.pipe > 1
        if not piped.any():
            return StepMemory(self.layout).parts()
        if piped.all():
            return LockstepMemory(self.layout).parts()
        rows = np.flatnonzero(piped)
        parts, total, phase = StepMemory(self.layout).parts()
        own, total[rows], phase[rows] = LockstepMemory(Layout(self.layout.setting, self.layout.table.take(rows))).parts()
        for name, size in own.items():
            parts[name][rows] = size
        return parts, total, phase
