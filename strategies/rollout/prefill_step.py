"""The prefill program: prompts of the whole batch into an empty cache, by the parts of ``strategies.rollout.step``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int

from strategies.rollout.cache import ROWS, Cache
from strategies.rollout.decode import empty_cache_shapes
from strategies.rollout.sample_spec import SampleSpec
from strategies.rollout.step import SampleStep, compiled_with, with_shardings
from strategies.rollout.step import build_step as build_rollout

__all__ = ["PrefillStep", "StepSpec", "build_step"]

StepSpec = SampleSpec
"""The name under which a worker finds a program's spec."""


@dataclass(frozen=True)
class PrefillStep:
    """The prefill of a rollout, to compile and to time."""

    rollout: SampleStep

    @property
    def jitted(self) -> Any:
        """``jax.jit`` of (served params, empty cache, prompts) -> cache; the given cache is donated."""
        return self.rollout.prefill_jitted

    def abstract_arguments(self) -> tuple[Any, ...]:
        """Shapes with shardings, for ``jitted.lower(*abstract_arguments())``."""
        spec, served = self.rollout.spec, self.rollout.served
        params = with_shardings(served.shapes, served.params)
        cache = with_shardings(empty_cache_shapes(spec), served.cache_sharding)
        rows, shape = NamedSharding(served.mesh, ROWS), (spec.workload.batch, spec.workload.prompt)
        return params, cache, jax.ShapeDtypeStruct(shape, jnp.int32, sharding=rows)

    def timed(self, options: Mapping[str, str | bool]) -> TimedPrefill:
        """The prefill in the form that a timing runs, compiled with ``options``."""
        return TimedPrefill(self.rollout, compiled_with(self.jitted, self.abstract_arguments(), options))


@dataclass(frozen=True)
class TimedPrefill:
    """A prefill that takes its own result again: ``jitted`` is (state, prompts) -> (state, padding)."""

    rollout: SampleStep
    run: Any

    def init(self, key: Array) -> tuple[nnx.State, Cache]:
        """Random parameters as they are served, and an empty cache."""
        params, cache = self.rollout.init(key)
        return self.rollout.whole(params), cache

    def example_batch(self, key: Array) -> Int[Array, "B P"]:
        """Random prompts."""
        work = self.rollout.spec.workload
        return self.rollout.random_tokens(key, (work.batch, work.prompt))

    def jitted(self, state: tuple[nnx.State, Cache], prompts_BT: Int[Array, "B P"]) -> tuple[tuple[nnx.State, Cache], Array]:
        """Prefill once; the given cache is overwritten."""
        params, cache = state
        cache = self.run(params, cache, prompts_BT)
        return (params, cache), cache.padding_B


def build_step(spec: SampleSpec, mesh: Mesh) -> PrefillStep:
    """The prefill of ``spec`` on ``mesh``.

    Raises
    ------
    BadInputError
        The program cannot run this model or workload under this layout; all reasons at once.
    """
    return PrefillStep(build_rollout(spec, mesh))
