"""A small step compiled for eight host devices, to read its text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

import jax

from cost_models.collectives.step import collectives
from cost_models.inputs.setting import Setting
from lcplan.catalog import hardware
from lcplan.spec.collective import CollectiveUse
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.train.step import build_step

MODEL = ModelSpec(name="to read", layers=3, d_model=64, d_ff=96, heads=8, kv_heads=2, head_dim=8, vocab=136)
WORKLOAD = Workload(seq_len=64, global_batch=8, precision="fp32")


@dataclass(frozen=True)
class Sizes:
    """docs/step.md's symbols for ``MODEL`` under a strategy."""

    strategy: Strategy

    def __getattr__(self, axis: str) -> int:
        return getattr(self.strategy.mesh, axis)

    @property
    def microbatches(self) -> int:
        return self.strategy.microbatches

    @property
    def tokens(self) -> float:
        """tl, of one microbatch."""
        return WORKLOAD.tokens / (self.data * self.fsdp * self.context * self.microbatches)

    @property
    def kv_heads(self) -> int:
        """On one tensor rank."""
        return max(1, MODEL.kv_heads // self.tensor)

    @property
    def saved(self) -> set[str]:
        return set(REMAT_POLICIES[self.strategy.remat].saved)


def _workload(document_len: int | None) -> Workload:
    return WORKLOAD.model_copy(update={"document_len": document_len})


def _lowered(strategy: Strategy, document_len: int | None = None) -> jax.stages.Lowered:
    mesh = build_mesh(strategy, jax.devices()[: strategy.devices])
    step = build_step(StepSpec(MODEL, _workload(document_len), strategy, "blockwise"), mesh)
    return step.jitted.lower(*step.abstract_arguments())


lower_on_host = cache(_lowered)


@cache
def compile_on_host(strategy: Strategy, document_len: int | None = None) -> str:
    """The executable's text; a lowered step that is kept would keep the executable too."""
    return _lowered(strategy, document_len).compile().as_text()


def gradients_on_host(strategy: Strategy, model: ModelSpec) -> str:
    """The text of the step without its update."""
    mesh = build_mesh(strategy, jax.devices()[: strategy.devices])
    step = build_step(StepSpec(model, WORKLOAD, strategy, "blockwise"), mesh)
    state, batch = step.abstract_arguments()
    return jax.jit(step.loss_and_gradients).lower(state.params, batch).compile().as_text()


def law_uses(strategy: Strategy, *, model: ModelSpec = MODEL, document_len: int | None = None) -> tuple[CollectiveUse, ...]:
    """What the law lists for the host."""
    machine = hardware("cpu-host")
    return tuple(collectives(Setting(model, machine, _workload(document_len), machine.usable_bytes), strategy))


def law_bytes(strategy: Strategy, *, model: ModelSpec = MODEL, document_len: int | None = None) -> Counter[tuple[str, str]]:
    """Bytes a step by (op, axes), as the law lists them for the host."""
    uses: Counter[tuple[str, str]] = Counter()
    for use in law_uses(strategy, model=model, document_len=document_len):
        uses[use.op, use.axis] += use.total_bytes
    return uses


def collective_uses(text: str, strategy: Strategy) -> tuple[CollectiveUse, ...]:
    """What an executable's text has."""
    facts = read_executable(text, mesh=MeshView(strategy.mesh_axes, strategy.mesh_shape), kind="cpu")
    assert facts.warnings == ()
    return facts.collectives


def collective_bytes(text: str, strategy: Strategy) -> Counter[tuple[str, str]]:
    """Bytes a step by (op, axes)."""
    uses: Counter[tuple[str, str]] = Counter()
    for use in collective_uses(text, strategy):
        uses[use.op, use.axis] += use.total_bytes
    return uses
