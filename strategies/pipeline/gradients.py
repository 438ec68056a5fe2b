"""Loss and gradients of a pipelined step: a loop over ticks for each phase of the schedule, the backward passes by hand.

No branch depends on the stage: values that differ between stages are selected, and work that differs between ticks is a loop
of its own or has a condition on the tick, which all devices answer alike. So no collective waits for a device that took
another branch.

Inside ``shard_map``: all lengths are local. R rows of a microbatch in a device's residual stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from strategies.inputs.step_spec import StepSpec
from strategies.layers.rope import angles
from strategies.model.decoder import Decoder
from strategies.parallel.collectives import all_gather, shift
from strategies.parallel.mesh import PIPE
from strategies.parallel.ranks import axis_index
from strategies.pipeline.chunk import Stage, Stash, Visit
from strategies.pipeline.ends import Ends, Parameters, gathered_tables, reduced_tables
from strategies.pipeline.ticks import Phase, Ticks, Work
from strategies.schemes.documents import TokenFacts, gathered
from strategies.schemes.layout import local_positions


class Sums(NamedTuple):
    """Sums over a step on one stage."""

    loss: Float[Array, ""]
    dropped: Float[Array, ""] | None
    layers: tuple[nnx.State, ...]
    outside: Parameters
    """Gradients of embedding, norm and head."""


class Carry(NamedTuple):
    """State between ticks."""

    x_RD: Float[Array, "R D"]
    """The output of the stage before."""
    dy_RD: Float[Array, "R D"]
    """The gradient from the stage after."""
    outputs: Float[Array, "n r D"]
    """Rows of this stage of the last stage's outputs that wait for their loss."""
    stash: Stash
    sums: Sums


class Row(NamedTuple):
    """One tick of the tables."""

    forward: Work
    backward: Work
    embeds: Array
    """Whether the first stage takes in a microbatch."""
    ends: Array
    """Whether the last stage ends one."""
    begins_back: Array
    """Whether the last stage begins one's backward pass, for which its loss is made."""
    ends_back: Array
    """Whether the first stage ends one's backward pass."""


def rows_of(ticks: Ticks) -> Row:
    """All ticks, on the leading dim."""
    first, last = (0, 0), (ticks.pipe - 1, ticks.chunks - 1)
    forward, backward = ticks.forward, ticks.backward
    events = forward.of_stage(*first), forward.of_stage(*last), backward.of_stage(*last), backward.of_stage(*first)
    return jax.tree.map(np.asarray, Row(forward, backward, *events))


@dataclass(frozen=True, eq=False)
class Pipeline:
    """One microbatch after another through the stages."""

    spec: StepSpec
    ticks: Ticks
    stage: Stage
    ends: Ends
    outside: Parameters
    """Embedding, norm and head, gathered over ``pipe``."""

    def __call__(self) -> Sums:
        """Return loss, dropped rows and gradients of this stage's own layers and rows."""
        carry, rows = self._empty(), rows_of(self.ticks)
        for phase in self.ticks.phases:
            own = jax.tree.map(lambda x, phase=phase: x[phase.first : phase.end], rows)
            tick = _Tick(self, phase, own)
            carry, _ = lax.scan(tick, carry, jax.tree.map(jnp.asarray, own))
        return carry.sums

    @cached_property
    def rope(self) -> Any:
        """Angles of this context rank's positions."""
        positions = local_positions(self.spec.strategy, self.spec.local_seq_len)
        return angles(self.spec.model, seq_len=self.spec.workload.seq_len, positions_T=positions)

    def facts(self, microbatch: Array) -> TokenFacts:
        """Positions, and documents of a microbatch."""
        documents_BT = self.ends.parts.documents_BT
        return TokenFacts(self.rope, None if documents_BT is None else gathered(documents_BT[microbatch]))

    def visit(self, work: Work) -> Visit:
        """This stage's part of a tick."""
        microbatch, chunk, slot = (lax.dynamic_index_in_dim(x, axis_index(PIPE), keepdims=False) for x in work)
        return Visit(microbatch >= 0, chunk, slot, self.facts(jnp.maximum(microbatch, 0)))

    def _empty(self) -> Carry:
        spec, pipe = self.spec, self.ticks.pipe
        rows = self.ends.parts.tokens_BT[0].size // spec.strategy.mesh.tensor
        stream = jax.ShapeDtypeStruct((rows, spec.model.d_model), spec.numerics.compute)
        x_RD = jnp.zeros(stream.shape, stream.dtype)
        outputs = jnp.zeros((self.ticks.outputs, rows // pipe, spec.model.d_model), stream.dtype)
        layers, outside = jax.tree.map(jnp.zeros_like, (self.stage.weights, self.outside))
        zero = jnp.zeros((), jnp.float32)
        sums = Sums(zero, None if spec.model.experts is None else zero, layers, outside)
        return Carry(x_RD, x_RD, outputs, self.stage.stash(self.ticks.slots, stream, self.facts(jnp.int32(0))), sums)


@dataclass(frozen=True, eq=False)
class _Tick:
    """The body of one phase's loop over ticks."""

    pipeline: Pipeline
    phase: Phase
    rows: Row
    """All ticks of the phase, as numpy arrays."""

    def __call__(self, carry: Carry, row: Row) -> tuple[Carry, None]:
        """Run a tick; the messages of both directions arrive for the next tick."""
        if self.phase.forward:
            carry = self._forward(carry, row)
        if self.phase.backward:
            carry = self._backward(carry, row)
        return carry, None

    def _when(self, event: str, row: Row, do: Callable[[Any], Any], value: Any) -> Any:
        """``do(value)`` in the ticks with an event, ``value`` in the others of the phase."""
        every = getattr(self.rows, event)
        if every.all():
            return do(value)
        return lax.cond(getattr(row, event), do, lambda value: value, value) if every.any() else value

    def _forward(self, carry: Carry, row: Row) -> Carry:
        pipe, last = self.pipeline, self.pipeline.ticks.pipe - 1
        visit = pipe.visit(row.forward)
        first = (axis_index(PIPE) == 0) & (visit.chunk == 0)

        def taken_in(x_RD: Array) -> Array:
            fresh_RD = pipe.ends.embedded(pipe.outside["embedding"], jnp.maximum(row.forward.microbatch[0], 0))
            return jnp.where(first, fresh_RD, x_RD)

        x_RD = self._when("embeds", row, taken_in, carry.x_RD)
        y_RD, stash, dropped = pipe.stage.forward(x_RD, carry.stash, visit)

        def put_out(outputs: Array) -> Array:
            place = row.forward.microbatch[last] % pipe.ticks.outputs
            return lax.dynamic_update_index_in_dim(outputs, pipe.ends.dealt(y_RD), place, 0)

        outputs = self._when("ends", row, put_out, carry.outputs)
        sums = carry.sums if dropped is None else carry.sums._replace(dropped=carry.sums.dropped + dropped)
        return carry._replace(x_RD=shift(y_RD, PIPE), outputs=outputs, stash=stash, sums=sums)

    def _backward(self, carry: Carry, row: Row) -> Carry:
        pipe, last = self.pipeline, self.pipeline.ticks.pipe - 1
        visit = pipe.visit(row.backward)
        at_end = (axis_index(PIPE) == last) & (visit.chunk == pipe.ticks.chunks - 1)

        def begin(value: tuple[Array, Sums]) -> tuple[Array, Sums]:
            dy_RD, sums = value
            microbatch = jnp.maximum(row.backward.microbatch[last], 0)
            y_rD = lax.dynamic_index_in_dim(carry.outputs, microbatch % pipe.ticks.outputs, keepdims=False)
            loss, (outside, dy_rD) = jax.value_and_grad(pipe.ends.loss, argnums=(0, 1))(self._loss_reads(), y_rD, microbatch)
            sums = sums._replace(loss=sums.loss + loss, outside=_more(sums.outside, outside))
            return jnp.where(at_end, all_gather(dy_rD, PIPE), dy_RD), sums

        dy_RD, sums = self._when("begins_back", row, begin, (carry.dy_RD, carry.sums))
        dx_RD, layers = pipe.stage.backward(dy_RD, carry.stash, sums.layers, visit)
        taken_in = (axis_index(PIPE) == 0) & (visit.chunk == 0)

        def end(outside: Parameters) -> Parameters:
            microbatch = jnp.maximum(row.backward.microbatch[0], 0)
            _, back = jax.vjp(lambda table_Vd: pipe.ends.embedded(table_Vd, microbatch), pipe.outside["embedding"])
            (table_Vd,) = back(jnp.where(taken_in, dx_RD, jnp.zeros((), dx_RD.dtype)))
            return _more(outside, {"embedding": table_Vd})

        sums = sums._replace(layers=layers, outside=self._when("ends_back", row, end, sums.outside))
        return carry._replace(dy_RD=shift(dx_RD, PIPE, by=-1), sums=sums)

    def _loss_reads(self) -> Parameters:
        """The parameters of the loss."""
        outside = self.pipeline.outside
        return {name: x for name, x in outside.items() if name != "embedding" or "head" not in outside}


def _more(sums: Parameters, gradients: Parameters) -> Parameters:
    return {name: total + gradients[name] if name in gradients else total for name, total in sums.items()}


def through_stages(model: Decoder, ends: Ends, *, like: nnx.State) -> tuple[tuple[Array, Array | None], nnx.State]:
    """This device's share of the mean loss, rows that experts dropped, and gradients in the tree of ``like``.

    Gradients of layers are whole except over the axes that replicate them; so are those of both tables.
    """
    own = {"embedding": model.embedding, "norm": model.norm, "head": model.head}
    outside = gathered_tables({name: x[...] for name, x in own.items() if x is not None})
    stage = Stage.of(ends.spec, model.layers)
    sums = Pipeline(ends.spec, Ticks.of(ends.spec.strategy), stage, ends, outside)()
    gradients = {**reduced_tables(sums.outside), "layers": sums.layers}
    return (sums.loss, sums.dropped), jax.tree.unflatten(jax.tree.structure(like), jax.tree.leaves(gradients))
