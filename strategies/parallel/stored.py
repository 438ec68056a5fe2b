"""Dtypes of the parameters: as the optimizer keeps them, and as they are differentiated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcplan.strategy import Strategy


def master_params(params: Any, strategy: Strategy) -> Any:
    """Return parameters as the step keeps them: matrices in fp32 or bf16, vectors in fp32."""
    return params if strategy.master_dtype == "fp32" else _rounded_matrices(params)


def differentiated(params: Any, strategy: Strategy) -> Any:
    """Return the parameters that gradients are taken of: for gradients in bf16, a copy with matrices in bf16."""
    return params if strategy.grad_dtype == "fp32" else _rounded_matrices(params)


def _rounded_matrices(params: Any) -> Any:

    def rounded(path: Any, leaf: Array) -> Array:
        return leaf.astype(jnp.bfloat16) if is_matrix(jax.tree_util.keystr(path)) else leaf

    return jax.tree_util.tree_map_with_path(rounded, params)


def is_matrix(path: str) -> bool:
    """Whether a parameter is a matrix: all are but norms, biases and the weight of shared experts' gate."""
    name = path.removesuffix(".value").split("'")[-2]
    return not name.endswith(("norm", "bias")) and name != "shared_weight"
