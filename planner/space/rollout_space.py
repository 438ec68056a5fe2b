"""The space of a rollout: every mesh of data, fsdp and tensor with its parameter and cache layouts."""

from __future__ import annotations

from itertools import product

import numpy as np

from cost_models.inputs.table import CODES, StrategyTable
from cost_models.rollout.table import CACHE_LAYOUTS, PARAMETER_LAYOUTS, RolloutTable
from lcplan.strategy import AXES
from planner.request.filters import Filters
from planner.rules.rollout import layouts_of
from planner.space.meshes import mesh_table
from planner.space.shapes import Ints

Options = tuple[str, str, str, str]
"""Parameter layout, cache layout, gather dtype, backend."""


def options_of(filters: Filters, backends: tuple[str, ...], *, mesh: tuple[int, ...]) -> tuple[Options, ...]:
    """The layouts of one mesh (sizes in the order of ``AXES``) that the filters let in.

    One backend represents all: a decode step has no permutes, and backends differ in nothing else here.
    """
    fsdp, tensor = mesh[AXES.index("fsdp")], mesh[AXES.index("tensor")]
    parameters = [name for name in layouts_of(fsdp, tensor) if name in (filters.parameters or PARAMETER_LAYOUTS)]
    caches = filters.cache or CACHE_LAYOUTS
    return tuple(product(parameters, caches, filters.gather_dtype or ("bf16",), (filters.backend or backends)[:1]))


def expand(filters: Filters, backends: tuple[str, ...], meshes: Ints) -> RolloutTable:
    """Every layout of the given meshes, shape [points] a column."""
    options = [options_of(filters, backends, mesh=tuple(int(size) for size in mesh)) for mesh in meshes]
    rows = np.repeat(np.arange(len(meshes)), [len(each) for each in options])
    table = mesh_table(meshes).take(rows)
    flat = [option for each in options for option in each]
    parameters, caches, gather, backend = (list(column) for column in zip(*flat, strict=True)) if flat else ([], [], [], [])
    columns = {name: getattr(table, name) for name in StrategyTable.__dataclass_fields__}
    columns |= {"gather_dtype": _codes(CODES["gather_dtype"], gather), "backend": _codes(CODES["backend"], backend)}
    return RolloutTable.of(
        StrategyTable(**columns), parameters=_codes(PARAMETER_LAYOUTS, parameters), cache=_codes(CACHE_LAYOUTS, caches)
    )


def _codes(known: tuple[object, ...], values: list[str]) -> np.ndarray:
    return np.array([known.index(value) for value in values], dtype=np.int8)
