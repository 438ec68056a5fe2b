"""SampleSpec: the rollout to build, and the StepSpec view of it that the decoder's modules read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import jax.numpy as jnp

from lcplan.spec.layers import LayerKind
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.strategy import Mesh, Sampling, Strategy
from strategies.inputs.step_spec import KernelName, Platform, StepSpec, dtype_of
from strategies.model.layer_loops import loops


@dataclass(frozen=True)
class SampleSpec:
    """One rollout: this model, these prompts, laid out by ``strategy.sampling``; ``kernel`` is prefill's."""

    model: ModelSpec
    workload: SampleWorkload
    strategy: Strategy
    kernel: KernelName
    platform: Platform = "cpu"
    """The compiler's platform, which ``build_step`` reads from the mesh."""
    cache_kernel: bool = False
    """Whether a Pallas kernel reads the cache; ``build_step`` decides by the devices."""

    @property
    def sampling(self) -> Sampling:
        """The rollout's layout; by default fsdp's shards as they are trained."""
        return self.strategy.sampling or Sampling(mesh=self.strategy.mesh, parameters="gathered-per-step")

    @cached_property
    def stored(self) -> StepSpec:
        """The StepSpec whose placement the given parameters have."""
        return self._step(self.sampling.mesh)

    @cached_property
    def served(self) -> StepSpec:
        """The StepSpec that decodes: once parameters are gathered, fsdp's devices are replicas."""
        mesh = self.sampling.mesh
        if self.sampling.parameters == "gathered-per-step":
            return self.stored
        return self._step(mesh.model_copy(update={"data": mesh.data * mesh.fsdp, "fsdp": 1}))

    @cached_property
    def decoding(self) -> StepSpec:
        """The StepSpec of a decode step: with few tokens, each expert multiplies all of them, and reads its matrices once.

        Dispatch with a capacity of every token: a loop over blocks of rows would run three short products per expert.
        """
        strategy = self.served.strategy.model_copy(update={"moe_dispatch": "capacity"})
        return replace(self.served, strategy=strategy)

    def _step(self, mesh: Mesh) -> StepSpec:
        """The StepSpec of prefill on ``mesh``: its sequence is the prompt."""
        work = self.workload
        own = {"mesh": mesh, "microbatches": 1, "sampling": None, "moe_dispatch": "dropless", "moe_capacity_percent": 0}
        strategy = self.strategy.model_copy(update=own)
        return StepSpec(self.model, work.train_view(work.prompt), strategy, self.kernel, self.platform)

    @property
    def stack_shapes(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """L B K S H over all devices, of each stack in the order of ``layer_stacks``.

        Where tensor exceeds K each rank has its own copy of one head.
        """
        heads, batch = max(self.model.kv_heads, self.sampling.mesh.tensor), self.workload.batch
        return tuple(
            (loop.repeats, batch, heads, self.slots(kind), self.model.head_dim)
            for loop in loops(self.stored)
            for kind in loop.period
        )

    def slots(self, kind: LayerKind) -> int:
        """Slots of a layer's cache: its window, or prompt and generated tokens where these are fewer."""
        return min(kind.window or self.workload.seq_len, self.workload.seq_len)

    @property
    def cache_dtype(self) -> jnp.dtype:
        """The dtype of keys and values in the cache."""
        return dtype_of(self.workload.kv_dtype)

    @property
    def steps(self) -> range:
        """Slots of the tokens that decode steps take: the prompts' last, and all new ones but the last."""
        work = self.workload
        return range(work.prompt - 1, work.seq_len - 1)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of positions that decode steps read, ascending: one program for each."""
        work = self.workload
        if self.sampling.cache == "whole":
            return (work.seq_len,)
        return cache_lengths(work.prompt, work.generate)


def cache_lengths(prompt: int, generate: int) -> tuple[int, ...]:
    """Powers of two from the first that holds the prompt and one token; the last one is cut to prompt + generated.

    >>> cache_lengths(256, 1024), cache_lengths(3, 5)
    ((512, 1024, 1280), (4, 8))
    """
    last = prompt + generate
    powers = [1 << n for n in range(prompt.bit_length(), last.bit_length()) if prompt < 1 << n < last]
    return (*powers, last)
