"""RolloutTable: strategies with a rollout's layout as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.table import Codes, Ints, StrategyTable
from lcplan.strategy import CacheLayout, Mesh, ParameterLayout, Sampling, Strategy

PARAMETER_LAYOUTS: tuple[ParameterLayout, ...] = get_args(ParameterLayout)
CACHE_LAYOUTS: tuple[CacheLayout, ...] = get_args(CacheLayout)
_OWN = ("sample_data", "sample_fsdp", "sample_tensor", "parameters", "cache")


@dataclass(frozen=True)
class RolloutTable(StrategyTable):
    """``n`` strategies whose rollout has a mesh, a parameter layout and a cache layout of its own; columns of shape ``[n]``."""

    sample_data: Ints
    sample_fsdp: Ints
    sample_tensor: Ints
    parameters: Codes
    """Codes into ``PARAMETER_LAYOUTS``."""
    cache: Codes
    """Codes into ``CACHE_LAYOUTS``."""

    def take(self, indices: NDArray[np.integer] | NDArray[np.bool_] | slice) -> RolloutTable:
        """The rows that ``indices`` picks, in that order."""
        return RolloutTable(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})

    def strategy(self, i: int) -> Strategy:
        """Row ``i`` as a ``Strategy`` with its rollout."""
        sizes = {axis: int(getattr(self, f"sample_{axis}")[i]) for axis in ("data", "fsdp", "tensor")}
        layout = Sampling(
            mesh=Mesh(**sizes),
            parameters=PARAMETER_LAYOUTS[int(self.parameters[i])],
            cache=CACHE_LAYOUTS[int(self.cache[i])],
        )
        return super().strategy(i).model_copy(update={"sampling": layout})

    @classmethod
    def from_strategies(cls, strategies: Sequence[Strategy]) -> Self:
        """One row for each strategy; each has a rollout."""
        layouts = [strategy.sampling for strategy in strategies]
        assert None not in layouts, "a strategy without a rollout"
        found: list[Sampling] = [layout for layout in layouts if layout is not None]
        meshes: dict[str, Any] = {
            f"sample_{axis}": np.array([getattr(layout.mesh, axis) for layout in found], dtype=np.int64)
            for axis in ("data", "fsdp", "tensor")
        }
        parameters = np.array([PARAMETER_LAYOUTS.index(layout.parameters) for layout in found], dtype=np.int8)
        cache = np.array([CACHE_LAYOUTS.index(layout.cache) for layout in found], dtype=np.int8)
        return cls(**_columns(StrategyTable.from_strategies(strategies)), **meshes, parameters=parameters, cache=cache)

    @classmethod
    def of(cls, table: StrategyTable, *, parameters: Codes, cache: Codes) -> Self:
        """A table of strategies whose rollouts run on their own meshes."""
        return cls(
            **_columns(table),
            sample_data=table.data,
            sample_fsdp=table.fsdp,
            sample_tensor=table.tensor,
            parameters=parameters,
            cache=cache,
        )

    @cached_property
    def trained(self) -> StrategyTable:
        """The train step's columns only."""
        return StrategyTable(**_columns(self))

    @cached_property
    def sampled(self) -> StrategyTable:
        """The same rows on the rollout's meshes."""
        ones = np.ones(len(self), dtype=np.int64)
        return replace(
            self.trained,
            data=self.sample_data,
            fsdp=self.sample_fsdp,
            tensor=self.sample_tensor,
            context=ones,
            expert=ones,
            microbatches=ones,
        )

    @cached_property
    def in_place(self) -> NDArray[np.bool_]:
        """Rows whose rollout gathers from the train step's shards where they are: both split every matrix alike."""
        same = (self.tensor == self.sample_tensor) & (self.data == self.sample_data) & (self.expert == 1)
        shards = self.fsdp * self.context == self.sample_fsdp
        return self.is_layout("gathered-once", "gathered-per-step") & same & shards

    def is_layout(self, *names: ParameterLayout) -> NDArray[np.bool_]:
        """Rows whose parameter layout is one of these."""
        return np.isin(self.parameters, [PARAMETER_LAYOUTS.index(name) for name in names])


def _columns(table: StrategyTable) -> dict[str, Any]:
    return {field.name: getattr(table, field.name) for field in fields(table) if field.name not in _OWN}
