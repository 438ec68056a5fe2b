"""A part on a mesh: a jitted function and its arguments, like the train step's (docs/step/parts.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from lcplan.parts import Part, PartKind
from lcplan.strategy import Strategy
from lcplan.strategy.attention_kernel import AttentionKernel
from strategies.inputs.step_spec import dtype_of
from strategies.parts.attention import attention
from strategies.parts.collective import collective
from strategies.parts.operands import Operand, Traced
from strategies.parts.product import products
from strategies.whole_array import mesh_of

_KINDS: dict[PartKind, Callable[..., Traced]] = {
    "matmul": products,
    "ffn": products,
    "attention": attention,
    "collective": collective,
}


@dataclass(frozen=True)
class PartProgram:
    """One part under one strategy's mesh, sharding mode, scheme and collective matmul."""

    mesh: Mesh
    jitted: Any
    operands: tuple[Operand, ...]
    dtype: jnp.dtype

    def abstract_arguments(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and shardings to lower with."""
        return tuple(jax.ShapeDtypeStruct(one.shape, self.dtype, sharding=self._sharding(one.split)) for one in self.operands)

    def example_arguments(self, key: Array) -> tuple[Array, ...]:
        """Random operands in their shardings."""
        keys = jax.random.split(key, len(self.operands))
        make = jax.jit(
            lambda keys: tuple(
                jax.random.normal(one, operand.shape, self.dtype) for one, operand in zip(keys, self.operands, strict=True)
            ),
            out_shardings=tuple(self._sharding(one.split) for one in self.operands),
        )
        return tuple(make(keys))

    def _sharding(self, split: P) -> NamedSharding:
        return NamedSharding(self.mesh, split)


def build_part(part: Part, strategy: Strategy, mesh: Mesh, *, kernel: AttentionKernel) -> PartProgram:
    """Build the program of ``part``: the mesh's axes, the mode and the knobs are those of ``strategy``."""
    mesh = mesh_of(strategy.sharding_mode, mesh)
    traced = _KINDS[part.kind](part, strategy, mesh, kernel=kernel)
    sharding = NamedSharding(mesh, traced.result)
    jitted = jax.jit(traced.function, out_shardings=sharding)
    return PartProgram(mesh, jitted, traced.operands, dtype_of(part.precision))
