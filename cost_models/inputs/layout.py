"""Layout: sizes on one device under each candidate, as float64 columns that all cost models share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.kept_tensors import KeptTensors
from cost_models.inputs.setting import Setting
from cost_models.inputs.state_bytes import StateBytes
from cost_models.inputs.table import DTYPES, StrategyTable
from lcplan.spec.segments import segment_of
from lcplan.strategy import AXES, AxisName, SchemeFacts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Column = TypeVar("Column", bound="NDArray[Any]")

_DTYPE_BYTES: Floats = np.array([{"bf16": 2.0, "fp32": 4.0}[name] for name in DTYPES])


@dataclass(frozen=True)
class Layout:
    """Local sizes of each of ``n`` candidates. Arrays have shape ``[n]``; nothing here is rounded.

    Symbols: ``c`` context, ``t`` tensor, ``f`` fsdp, ``d`` data, ``M`` microbatches, ``B`` global batch [sequences], ``T``
    sequence length [tokens]; the rest as in docs/notation.md.

    Source: docs/step.md, how tensors are split.
    """

    setting: Setting
    table: StrategyTable
    whole: Layout | None = None
    """The whole model's layout, where this one covers one kind of layers. A layer's cost models assume equal layers; their
    results are summed over kinds."""

    @property
    def parts(self) -> tuple[Layout, ...]:
        """One layout for each kind of layers (``ModelSpec.parts``); the layout itself where all layers are alike."""
        return self._kinds if len(self.setting.model.layer_kinds) > 1 else (self,)  # kept, it would hold itself alive

    @cached_property
    def _kinds(self) -> tuple[Layout, ...]:
        return tuple(Layout(replace(self.setting, model=kind), self.table, whole=self) for kind in self.setting.model.parts)

    @property
    def outside(self) -> Layout | None:
        """The whole model's layout on the first kind of layers, which accounts for everything outside the layers; else None."""
        return self if self.whole is None else self.whole if self.whole.parts[0] is self else None

    @cached_property
    def _kept(self) -> dict[str, NDArray[Any]]:
        return {}

    def once(self, name: str, make: Callable[[], Column]) -> Column:
        """Return the result of ``make()``, cached under ``name`` so that several cost models compute it once."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast("Column", self._kept[name])

    @cached_property
    def data(self) -> Floats:
        """Size of the data axis: ``d`` [count]."""
        return self._size("data")

    @cached_property
    def fsdp(self) -> Floats:
        """Size of the fsdp axis: ``f`` [count]."""
        return self._size("fsdp")

    @cached_property
    def context(self) -> Floats:
        """Size of the context axis: ``c`` [count]."""
        return self._size("context")

    @cached_property
    def tensor(self) -> Floats:
        """Size of the tensor axis: ``t`` [count]."""
        return self._size("tensor")

    @cached_property
    def expert(self) -> Floats:
        """Size of the expert axis: ``e`` [count]."""
        return self._size("expert")

    @cached_property
    def expert_ranks(self) -> Floats:
        """Ranks that share a layer's experts, on the expert axis or folded over other axes: ``e`` [count]."""
        return self.expert * self.table.expert_fold

    @cached_property
    def folds(self) -> Bools:
        """Rows whose expert ranks are folded over tensor, context and fsdp ranks."""
        return self.table.expert_fold > 1

    @cached_property
    def whole_experts(self) -> Bools:
        """Rows whose tensor ranks hold whole experts, and route their own part of the tokens."""
        return self.folds & (self.table.expert_tensor > 0) & (self.table.tensor > 1)

    @cached_property
    def expert_tensor(self) -> Floats:
        """Tensor ranks that split each expert: ``t``, or 1 where they hold whole experts [count]."""
        return np.where(self.whole_experts, 1.0, self.tensor)

    @cached_property
    def expert_replicas(self) -> Floats:
        """Ranks that share the state of one expert's matrices: ``f c``, with folded experts ``f c t / (e t_e)`` [count]."""
        inside = self.members(tuple(axis for axis in self.weight_axes if axis != "expert"))
        return inside * self.tensor / (self.expert_tensor * self.table.expert_fold)

    @cached_property
    def routed_tokens(self) -> Floats:
        """Tokens of a microbatch that a rank routes: those of its context rank, or its own part of them [tokens]."""
        return self.tokens * self.expert_tensor / self.tensor

    def _size(self, axis: AxisName) -> Floats:
        """Size of one axis."""
        return self.once(f"size of {axis}", lambda: getattr(self.table, axis).astype(np.float64))

    @cached_property
    def _members(self) -> dict[tuple[AxisName, ...], Floats]:
        return {}

    def members(self, axes: tuple[AxisName, ...]) -> Floats:
        """Return the devices of a group over ``axes``, the product of their sizes [count]."""
        if axes not in self._members:
            sizes: list[Floats] = [self._size(axis) for axis in axes]
            self._members[axes] = reduce(np.multiply, sizes) if sizes else np.ones(len(self.table))
        return self._members[axes]

    def joins(self, axes: tuple[AxisName, ...]) -> Floats:
        """Return 1 where a group over ``axes`` has more than one member, else 0 [count]."""
        return self.once(f"joins {axes}", lambda: (self.members(axes) > 1).astype(np.float64))

    @cached_property
    def microbatches(self) -> Floats:
        """Microbatches of a step: ``M`` [count]."""
        return self.table.microbatches.astype(np.float64)

    @cached_property
    def devices(self) -> Floats:
        """Devices of the mesh [count]."""
        return self.members(AXES)

    @cached_property
    def segment(self) -> Floats:
        """Devices that the job uses of each domain [count]: the knob's, or all that whole hosts allow."""
        hardware, stated = self.setting.hardware, self.table.segment.astype(np.float64)
        if hardware.domains == 1:
            return np.where(stated > 0, stated, np.minimum(self.devices, float(hardware.domain_size)))
        counts, row = np.unique(self.table.devices, return_inverse=True)
        largest = np.array([segment_of(hardware, int(count)) for count in counts], dtype=np.float64)
        return np.where(stated > 0, stated, largest[row.ravel()])

    @cached_property
    def idle_devices(self) -> Floats:
        """Devices of the job's domains that it leaves idle and no other job of several domains can use [count]."""
        domains = np.ceil(self.devices / self.segment)
        return np.where(domains > 1, domains * self.setting.hardware.domain_size - self.devices, 0.0)

    @cached_property
    def weight_shards(self) -> Floats:
        """Devices in one all-gather of weights: ``f c e``, or ``f e`` if context does not shard weights [count]."""
        return self.members(self.weight_axes)

    @property
    def weight_axes(self) -> tuple[AxisName, ...]:
        """Axes other than tensor over which weights are sharded and gathered."""
        context: tuple[AxisName, ...] = ("context",) if self.setting.program.weights_over == "fsdp+context" else ()
        return ("fsdp", *context, *self._expert_axis)

    @property
    def _expert_axis(self) -> tuple[AxisName, ...]:
        """The expert axis, where the model has experts. For all other weights it is one more axis of data and of state."""
        return () if self.setting.model.experts is None else ("expert",)

    @property
    def state_axes(self) -> tuple[AxisName, ...]:
        """Axes other than data and tensor."""
        return ("fsdp", "context", *self._expert_axis)

    @property
    def gradient_axes(self) -> tuple[AxisName, ...]:
        """Axes that replicate matrices; gradients are reduced over them once per step."""
        return ("data",) if self.setting.program.weights_over == "fsdp+context" else ("data", "context")

    @cached_property
    def state_shards(self) -> Floats:
        """Devices over which a matrix and its optimizer state are split, experts included: ``f c e t`` [count]."""
        return self.weight_shards * self.tensor

    @cached_property
    def sequences(self) -> Floats:
        """Sequences of one microbatch on a device: ``b = B / (d f e M)`` [sequences]."""
        return self.setting.workload.global_batch / (self.members(("data", "fsdp", *self._expert_axis)) * self.microbatches)

    @cached_property
    def local_length(self) -> Floats:
        """Tokens of one sequence that a context rank holds: ``T / c`` [tokens]."""
        return self.setting.workload.seq_len / self.context

    @cached_property
    def tokens(self) -> Floats:
        """Tokens of a microbatch on one context rank: ``tl = b T / c`` [tokens]."""
        return self.sequences * self.local_length

    @cached_property
    def stream_tokens(self) -> Floats:
        """Tokens of the residual stream on one device, sequence-sharded over tensor: ``ts = tl / t`` [tokens]."""
        return self.tokens / self.tensor

    @cached_property
    def query_width(self) -> Floats:
        """Query features of a device: ``H N / t`` [features]."""
        return self.setting.model.head_dim * self.setting.model.heads / self.tensor

    @cached_property
    def kv_width(self) -> Floats:
        """Key features of a device, and as many value features: ``H max(K / t, 1)`` [features]."""
        return self.setting.model.head_dim * np.maximum(self.setting.model.kv_heads / self.tensor, 1.0)

    @cached_property
    def ff_width(self) -> Floats:
        """Feed-forward features of a device, of one expert where the layers have experts: ``F / t`` [features]."""
        experts = self.setting.model.routed
        return (self.setting.model.d_ff if experts is None else experts.d_ff) / self.tensor

    @cached_property
    def shared_width(self) -> Floats:
        """Features of all shared experts on a device; 0 without shared experts [features]."""
        experts = self.setting.model.routed
        return (0 if experts is None else experts.shared_d_ff) / self.tensor

    @cached_property
    def vocab_width(self) -> Floats:
        """Vocabulary entries of a device: ``V / t`` [count]."""
        return self.setting.model.vocab / self.tensor

    @cached_property
    def kv_spread(self) -> Bools:
        """Rows whose tensor axis exceeds the key/value heads, so that key/value weights are gathered over tensor too."""
        return self.table.tensor > self.setting.model.kv_heads

    @cached_property
    def loss_chunk(self) -> Floats:
        """Tokens of a context rank whose logits exist at the same time, at most all of its tokens [tokens]."""
        whole = self.setting.program.loss == "whole"
        return self.tokens if whole else np.minimum(self.table.loss_chunk_tokens, self.tokens)

    @cached_property
    def loss_chunks(self) -> Floats:
        """Loss chunks of a microbatch [count]."""
        return np.ceil(self.tokens / self.loss_chunk)

    @cached_property
    def gather_bytes(self) -> Floats:
        """Size of a gathered weight element: ``g`` [bytes per element]."""
        return _DTYPE_BYTES[self.table.gather_dtype]

    @cached_property
    def reduce_bytes(self) -> Floats:
        """Size of a weight gradient's element while it is reduced: ``r`` [bytes per element]."""
        return _DTYPE_BYTES[self.table.reduce_dtype]

    @cached_property
    def state(self) -> StateBytes:
        """Bytes of the weights, moments and gradients of each element."""
        return StateBytes(self)

    @property
    def activation_bytes(self) -> float:
        """Size of an activation element: 2 in bf16, 4 in fp32 [bytes per element]."""
        return 2.0 if self.setting.workload.precision == "bf16" else 4.0

    @property
    def held_bytes(self) -> float:
        """Size of an activation element in memory [bytes per element].

        XLA for CPU computes bf16 in fp32 and keeps the fp32 copies.
        """
        return 4.0 if self.setting.hardware.kind == "cpu" else self.activation_bytes

    def scheme_has(self, fact: Callable[[SchemeFacts], bool]) -> Bools:
        """Rows with more than one context rank whose scheme has a fact."""
        return self.table.scheme_has(fact)

    @cached_property
    def window(self) -> float | None:
        """Tokens that a query sees, where these are fewer than the sequence; None where layers differ in kind [tokens]."""
        model = self.setting.model
        window = None if model.window_pattern else model.sliding_window
        return None if window is None or window >= self.setting.workload.seq_len else float(window)

    @cached_property
    def rings(self) -> Bools:
        """Rows whose keys and values travel around a ring; windowed layers exchange a halo instead."""
        rings = self.scheme_has(lambda facts: facts.rings)
        return rings if self.window is None else rings & False

    @cached_property
    def gathers(self) -> Bools:
        """Rows whose keys and values are gathered."""
        gathers = self.scheme_has(lambda facts: facts.gathers)
        return gathers if self.window is None else gathers & False

    @cached_property
    def exchange(self) -> Floats:
        """Neighbouring context ranks that exchange heads: all in ``ulysses``, ``e`` in ``ulysses-ring``, else 1 [count]."""
        return np.where(self.scheme_has(lambda facts: facts.sees_whole_sequences), self.context, self.table.ulysses)

    @cached_property
    def chunks(self) -> Floats:
        """Chunks of the sequence, one for each group of ranks that exchange heads: ``c / e`` [count]."""
        return self.context / self.exchange

    @cached_property
    def kv_copies(self) -> Floats:
        """Ranks of an exchange that receive each key/value head: 1, or ``e t / K`` if ranks outnumber heads [count]."""
        heads = self.kv_width / self.setting.model.head_dim
        return np.maximum(np.floor(self.exchange / heads), 1.0)

    @cached_property
    def directions(self) -> Floats:
        """Directions in which a ring sends keys and values at the same time, each with a share of the heads: 1 or 2 [count]."""
        return 1.0 + (self.table.bidirectional == 1)

    @cached_property
    def ring_matmuls(self) -> Bools:
        """Rows whose products over tensor are collective matmuls; PyTorch's collectives keep their names (``overlap``)."""
        return (self.table.collective_matmul > 0) & (self.table.tensor > 1) & (self.setting.program.runtime == "xla")

    @cached_property
    def _kept_tensors(self) -> KeptTensors:
        return KeptTensors(self.table.remat, self.setting.program)

    @property
    def offloaded(self) -> tuple[str, ...]:
        """Tensors of a layer that at least one row keeps in the host's memory."""
        return tuple(self._kept_tensors.offloaded)

    def offloads(self, tensor: str) -> Bools:
        """Return the rows that keep the named tensor of a layer, or ``layer_in``, in the host's memory."""
        return self._kept_tensors.offloaded[tensor]

    def saves(self, tensor: str) -> Bools:
        """Return the rows whose remat policy keeps the named tensor (lcplan.strategy.remat) for the backward pass."""
        return self._kept_tensors.saved[tensor]
