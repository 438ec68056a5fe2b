"""Muon for the layers' matrices, one layer at a time, and AdamW for all other parameters (github KellerJordan/Muon).

The products are optax's. They run over one layer after another, so that only one layer's momentum is gathered at a time.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import jax
import optax
from jax import lax

from strategies.parallel.stored import is_matrix

_BETA = 0.95
_RMS = 0.2  # of an update, times the root of the longer side, as AdamW's (arXiv:2502.16982, section 2.2)


def muon(rest: optax.GradientTransformation, *, learning_rate: float, weight_decay: float) -> optax.GradientTransformation:
    """Momentum made orthogonal by five Newton-Schulz steps; ``rest`` updates parameters other than the matrices of layers."""

    def of(path: str, leaf: Any) -> optax.GradientTransformation:
        return _one_layer(path, leaf.shape[1:], learning_rate=learning_rate, weight_decay=weight_decay)

    def init(params: Any) -> Any:
        layers, others = _split(params)
        momenta = {key: jax.vmap(of(key, leaf).init)(leaf) for key, leaf in layers.items()}
        return momenta, rest.init(others)

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        layers, others = _split(params)
        made, kept = {}, {}
        given = dict(_leaves(gradients))
        for key, leaf in layers.items():
            step = of(key, leaf).update
            made[key], kept[key] = lax.map(lambda each, step=step: step(*each), (given[key], state[0][key], leaf))
        updates, moments = rest.update({key: given[key] for key in others}, state[1], others)
        tree = jax.tree.structure(params)
        found = {**made, **updates}
        return jax.tree.unflatten(tree, [found[key] for key, _ in _leaves(params)]), (kept, moments)

    return optax.GradientTransformation(init, update)


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def _split(params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The layers' matrices, stacked on a leading dim, and all other parameters, by path."""
    pairs = _leaves(params)
    layers = {key: leaf for key, leaf in pairs if is_layer_matrix(key)}
    return layers, {key: leaf for key, leaf in pairs if key not in layers}


def is_layer_matrix(path: str) -> bool:
    """Whether a parameter is a matrix of the layers."""
    return path.startswith("['layers']") and is_matrix(path)


def _one_layer(path: str, shape: tuple[int, ...], *, learning_rate: float, weight_decay: float) -> optax.GradientTransformation:
    """One layer's matrix: D rows, all other dims columns, but each expert a matrix of its own."""
    columns = (2,) if "expert_" in path else tuple(range(1, len(shape)))
    numbers = optax.contrib.MuonDimensionNumbers(reduction_axis=0, output_axis=columns)
    widest = max(shape[0], prod(shape[dim] for dim in columns))
    return optax.chain(
        optax.contrib.scale_by_muon(beta=_BETA, weight_dimension_numbers=lambda _: numbers),
        optax.scale(_RMS * sqrt(widest)),
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(learning_rate),
    )
