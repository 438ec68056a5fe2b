"""Strategy: one point of the space. Everything that decides which program is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer

from lcplan.formats.frozen import Frozen
from lcplan.strategy.axes import OUTERMOST, AxisName
from lcplan.strategy.knob import Knob, Value
from lcplan.strategy.knobs import KNOBS, ROLLOUT_KNOBS, STEP_KNOBS, RolloutKnobs, StepKnobs
from lcplan.strategy.remat import OFFLOAD_PERCENT


class Sampling(RolloutKnobs):
    """How a rollout is laid out, on a mesh of its own over the same devices."""

    beside_training: bool = False
    """Whether the strategy's train step takes turns with the rollout, so that its state stays on the devices."""

    @property
    def label(self) -> str:
        """``data=16 gathered-once cache=whole``."""
        return " ".join((self.mesh.label, *_words(self, ROLLOUT_KNOBS)))


class Strategy(StepKnobs):
    """How one train step is laid out. ``devices`` is the product of the mesh."""

    sampling: Sampling | None = None
    """The rollout's layout, where the workload has one."""

    @model_serializer(mode="wrap")
    def _without_rollout(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the keys of features that a train step's strategy does not have."""
        data: dict[str, Any] = dump(self)
        if self.sampling is None:
            data.pop("sampling", None)
        for name in ("schedule", "virtual_stages"):
            if self.mesh.pipe == 1 and getattr(self, name) == STEP_KNOBS[name].default:
                data.pop(name, None)
        if self.expert_fold == 1:
            data.pop("expert_fold", None)
            if self.expert_tensor == "split":
                data.pop("expert_tensor", None)
        return data

    @property
    def devices(self) -> int:
        """Devices that the mesh takes."""
        return self.mesh.devices

    @property
    def mesh_axes(self) -> tuple[AxisName, ...]:
        """Axes of the mesh of devices, outermost first: those of the placement, and a pipeline outside them."""
        return (*(axis for axis in OUTERMOST if getattr(self.mesh, axis) > 1), *self.axis_order)

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Sizes of ``mesh_axes``."""
        return tuple(getattr(self.mesh, axis) for axis in self.mesh_axes)

    @property
    def state_shards(self) -> int:
        """Number of devices over which matrices and their optimizer state are split."""
        return self.mesh.state_shards

    def with_knob(self, name: str, value: Value) -> Self:
        """The same with another value of a knob; knobs that then mean nothing fall back to their defaults."""
        made = self.model_copy(update={name: value})
        idle = {other: knob.default for other, knob in STEP_KNOBS.items() if knob.active_when and not knob.is_active(made)}
        return made.model_copy(update=idle)

    def knob(self, name: str) -> Value:
        """The value of a knob, of the train step or of the rollout; the default of a knob of a rollout that is not there."""
        if name in STEP_KNOBS:
            value: Value = getattr(self, name)
        else:
            value = getattr(self.sampling, name) if self.sampling is not None else KNOBS[name].default
        return value

    @property
    def remat_label(self) -> str:
        """The remat policy as a table's cell: ``offload-layer-in 50%`` where not all layers offload."""
        return self.remat if self.offload_percent == OFFLOAD_PERCENT else f"{self.remat} {self.offload_percent}%"

    @property
    def scheme_label(self) -> str:
        """The scheme as a table's cell: ``ring 2-way``, ``/4`` where 4 ranks exchange heads; ``-`` without a context axis."""
        if self.mesh.context == 1:
            return "-"
        exchange = f"/{self.ulysses}" if self.ulysses > 1 else ""
        return f"{self.scheme}{exchange}{' 2-way' if self.bidirectional == 'on' else ''}"

    @property
    def label(self) -> str:
        """One line that names the strategy in tables and messages, in the words that ``lcplan explain`` takes."""
        if self.sampling is not None and not self.sampling.beside_training:
            return f"{self.sampling.label} {self.backend}"
        rollout = f"; rollout {self.sampling.label}" if self.sampling else ""
        return " ".join((self.mesh.label, *_words(self, STEP_KNOBS))) + rollout


def _words(knobs: Frozen, records: Mapping[str, Knob]) -> Iterator[str]:
    """The knobs that a label names: the ones that every label has, and the ones that were changed."""
    for name, knob in records.items():
        value = getattr(knobs, name)
        if value != knob.default if knob.shown is None else knob.shown and _has_axis(knobs, knob):
            yield str(value) if knob.bare else f"{name}={value}"


def _has_axis(knobs: Any, knob: Knob) -> bool:
    return not knob.axis or getattr(knobs.mesh, knob.axis) > 1
