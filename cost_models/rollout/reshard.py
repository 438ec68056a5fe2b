"""The move of the trained weights to a rollout's layout: time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cost_models.collectives.group_span import span_of
from cost_models.collectives.network import call_cost
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.rates.published import rates_for
from cost_models.rollout.layout import FP32_BYTES, Rollout
from cost_models.rollout.table import RolloutTable
from lcplan.spec.collective import Op


@dataclass(frozen=True)
class Move:
    """Sizes of the move of each row; columns of shape ``[n]``.

    A matrix has S shards in training and K in the rollout, over t and r tensor ranks. ``g``: bytes of an element as it moves,
    the gather dtype's, or 4 where the rollout receives fp32 shards that it gathers itself.

    Source: docs/rl.md; the collectives of ``strategies.rl.reshard_step`` as compiled.
    """

    setting: Setting
    table: RolloutTable

    @cached_property
    def rollout(self) -> Rollout:
        """Sizes of the rollout's layout."""
        return Rollout(self.setting, self.table)

    @cached_property
    def trained(self) -> Layout:
        """Sizes of the train step's layout."""
        work = self.rollout.work
        return Layout(replace(self.setting, workload=work.train_view(work.seq_len)), self.table.trained)

    @cached_property
    def element_bytes(self) -> Floats:
        """``g`` [bytes per element]."""
        shards = self.table.is_layout("gathered-once", "gathered-per-step")
        return np.where(shards, FP32_BYTES, self.rollout.layout.gather_bytes)

    @cached_property
    def shards(self) -> Floats:
        """Shards of a matrix in training: ``S`` [count]."""
        return self.trained.state_shards * self.trained.tensor

    @cached_property
    def kept(self) -> Floats:
        """Shards of a matrix in the rollout: ``K`` [count]."""
        return self.rollout.layout.tensor * self.rollout.layout.fsdp

    @cached_property
    def gathers(self) -> Bools:
        """Rows in which a rollout's device keeps more of a matrix than it had in training."""
        return np.asarray(self.shards > self.kept)

    def seconds(self) -> Floats:
        """All-to-all and all-gather of every matrix [s]."""
        whole = self.element_bytes * self.rollout.matrix_elements * self.rollout.layout.tensor
        sampling, training = self.rollout.layout, self.trained
        exchanged = whole / self.shards
        wider = np.where(sampling.tensor > training.tensor, self._call("all-to-all", sampling, "tensor", exchanged), 0.0)
        narrower = np.where(training.tensor > sampling.tensor, self._call("all-to-all", training, "tensor", exchanged), 0.0)
        gathered = np.where(self.gathers, self._call("all-gather", sampling, "data", whole / self.kept), 0.0)
        return np.where(self.table.in_place, 0.0, wider + narrower + gathered)

    def _call(self, op: Op, layout: Layout, axis: str, size_bytes: Floats) -> Floats:
        span = span_of(layout, ("tensor",) if axis == "tensor" else ("data",))
        cost = call_cost(op, span, hardware=self.setting.hardware, rates=rates_for(self.setting))
        return np.where(span.members > 1, cost.seconds(size_bytes), 0.0)

    def copies(self) -> Floats:
        """Copies of a table, which moves whole while layers move one by one [bytes per device].

        The gathered table before its layout is the rollout's; without a gather, the rounded shards of all tables and the
        exchanged ones.
        """
        model = self.setting.model
        table = self.element_bytes * model.vocab * model.d_model
        tables = 1.0 if model.tied_embeddings else 2.0
        copied = np.where(self.gathers, table / self.kept, 2.0 * tables * table / self.shards)
        return np.where(self.table.in_place, 0.0, copied)


class MoveCost(NamedTuple):
    """Time and memory of the move of each row; columns of shape ``[n]``. Source: ``reshard_cost``."""

    seconds: Floats
    """Time [s per iteration]."""
    copied_bytes: Floats
    """Memory beyond both copies of the parameters [bytes per device]."""


def reshard_cost(setting: Setting, table: RolloutTable) -> MoveCost:
    """Return time and memory of the move of the trained shards to the rollout's layout, once per iteration.

    Where the tensor axes differ, an all-to-all over the wider one of the device's ``g P / S`` bytes; where the rollout keeps
    more than the device had (``S > K``), an all-gather over its data axis of the ``g P / K`` bytes that it keeps. Both are 0
    where it gathers the trained shards in place.

    Parameters
    ----------
    setting : Setting
        Model, machine and the rollout's workload.
    table : RolloutTable
        Rollouts with their train strategies.

    Returns
    -------
    MoveCost
        Time [s per iteration] and copies [bytes per device], each of shape ``[n]``.

    Notes
    -----
    Source: ``Move``; ``cost_models.collectives.network``; memory: Qwen3-1.7B and Qwen3-8B on 8 H100 (jax 0.10.1): 0.58 GiB
    from fsdp=8 to data=8, 0.29 to data=4,tensor=2.
    """
    move = Move(setting, table)
    return MoveCost(move.seconds(), move.copies())
