"""Stacks of layers between a model's own runs and the loops that a step cuts them into where a share of the layers offloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lcplan.spec.model import ModelSpec
from lcplan.strategy import Strategy
from strategies.pipeline.ticks import stored_order

Stacks = list[list[Any]]
"""By run, or by loop, and by place in its period."""


def cut(params: dict[str, Any], like: dict[str, Any], *, model: ModelSpec) -> dict[str, Any]:
    """``params`` of a model's runs with their layers cut as those of ``like`` are."""
    if jax.tree.structure(params) == jax.tree.structure(like):
        return params
    runs = by_run(params["layers"], model)
    made = {}
    for (loop, places), (run, first, last) in zip(like["layers"].items(), _spans(like["layers"], model), strict=True):
        parts = [jax.tree.map(lambda leaf, first=first, last=last: leaf[first:last], stack) for stack in runs[run]]
        made[loop] = dict(zip(places, parts, strict=True))
    return params | {"layers": made}


def joined(params: dict[str, Any], like: dict[str, Any], *, model: ModelSpec) -> dict[str, Any]:
    """The inverse: ``params`` of a step's loops with their layers as those of ``like``, a model's runs."""
    if jax.tree.structure(params) == jax.tree.structure(like):
        return params
    runs: Stacks = [[None] * len(run.period) for run in model.layer_runs]
    for places, (run, first, _) in zip(params["layers"].values(), _spans(params["layers"], model), strict=True):
        for place, stack in enumerate(places.values()):
            runs[run][place] = stack if first == 0 else jax.tree.map(_after, runs[run][place], stack)
    leaves = jax.tree.leaves(params | {"layers": runs[0][0] if len(model.layer_kinds) == 1 else runs})
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def by_run(layers: Any, model: ModelSpec) -> Stacks:
    """Stacks of a model's runs."""
    return [[layers]] if len(model.layer_kinds) == 1 else [list(places.values()) for places in layers.values()]


def staged(params: dict[str, Any], *, strategy: Strategy) -> dict[str, Any]:
    """``params`` with their layers as the stages of a pipeline stack them; ones where a stage has an empty place."""
    if strategy.mesh.pipe == 1:
        return params
    stages = strategy.mesh.pipe * strategy.virtual_stages

    def stack(x: np.ndarray) -> np.ndarray:
        empty = -len(x) % stages
        return np.concatenate([x, np.ones((empty, *x.shape[1:]), x.dtype)])[stored_order(strategy, len(x) + empty)]

    return params | {"layers": jax.tree.map(stack, params["layers"])}


def unstaged(params: dict[str, Any], like: dict[str, Any], *, strategy: Strategy) -> dict[str, Any]:
    """The inverse: ``params`` of stages with their layers as those of ``like``. Empty places are zero."""
    if strategy.mesh.pipe == 1:
        return params

    def stack(x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        ordered = x[np.argsort(stored_order(strategy, len(x)))]
        assert not ordered[len(wanted) :].any()
        return ordered[: len(wanted)]

    return params | {"layers": jax.tree.map(stack, params["layers"], like["layers"])}


def _spans(layers: dict[Any, Any], model: ModelSpec) -> Iterator[tuple[int, int, int]]:
    """Of each loop the run that it is of, its first turn there, and the one after its last."""
    run, first = 0, 0
    for places in layers.values():
        last = first + jax.tree.leaves(places)[0].shape[0]
        yield run, first, last
        run, first = (run + 1, 0) if last == model.layer_runs[run].repeats else (run, last)


def _after(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([a, b])
