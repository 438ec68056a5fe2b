"""A small step compiled for eight host devices, to read its text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

import jax

from lcplan.model import ModelSpec
from lcplan.remat import REMAT_POLICIES
from lcplan.strategy import Strategy
from lcplan.workload import Workload
from planner.measure.hlo import read_executable
from planner.measure.hlo_groups import MeshView
from strategies.mesh import build_mesh
from strategies.spec import StepSpec
from strategies.step import build_step

MODEL = ModelSpec(name="to read", layers=3, d_model=64, d_ff=96, heads=8, kv_heads=2, head_dim=8, vocab=136)
SEQ_LEN, GLOBAL_BATCH = 64, 8


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
        return GLOBAL_BATCH * SEQ_LEN / (self.data * self.fsdp * self.context * self.microbatches)

    @property
    def kv_heads(self) -> int:
        """On one tensor rank."""
        return max(1, MODEL.kv_heads // self.tensor)

    @property
    def saved(self) -> set[str]:
        return set(REMAT_POLICIES[self.strategy.remat].saved)


@cache
def lower_on_host(strategy: Strategy, document_len: int | None = None) -> jax.stages.Lowered:
    workload = Workload(seq_len=SEQ_LEN, global_batch=GLOBAL_BATCH, document_len=document_len, precision="fp32")
    mesh = build_mesh(strategy, jax.devices()[: strategy.devices])
    step = build_step(StepSpec(MODEL, workload, strategy, "blockwise"), mesh)
    return step.jitted.lower(*step.abstract_arguments())


@cache
def compile_on_host(strategy: Strategy, document_len: int | None = None) -> str:
    """The executable's text."""
    return lower_on_host(strategy, document_len).compile().as_text()


def collective_bytes(text: str, strategy: Strategy) -> Counter[tuple[str, str]]:
    """Bytes a step by (op, axes)."""
    sizes = tuple(getattr(strategy.mesh, axis) for axis in strategy.axis_order)
    facts = read_executable(text, mesh=MeshView(strategy.axis_order, sizes), kind="cpu")
    assert facts.warnings == ()
    uses: Counter[tuple[str, str]] = Counter()
    for use in facts.collectives:
        uses[use.op, use.axis] += use.total_bytes
    return uses
