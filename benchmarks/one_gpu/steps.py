"""lcplan's step beside a plain one, at the shapes and remat policies of the bundled table ``h100-single-device``.

Both run in one fresh process, lcplan's first: an allocator's peak only grows, so the plain step's peak is seen where it is
the larger of the two, and is at most lcplan's where it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import jax

from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from lcplan.strategy.remat import REMAT_POLICIES, RematName, remat_name
from one_gpu.card import Card
from one_gpu.plain_step import PlainStep
from planner.measure.timing.time_full import Sampling, time_step
from planner.validate.sources.bundled import find_table
from planner.validate.sources.table import Row
from strategies.kernels import default_kernel
from strategies.parallel.mesh import build_mesh
from strategies.train.step import StepSpec, build_step

TABLE = "h100-single-device"
SAMPLING = Sampling(warmup=1, least=4, most=6, enough_s=4.0)
TINY_TOKENS = 512


def rows() -> tuple[Row, ...]:
    """The table's rows."""
    return find_table(TABLE)[0].rows


def ids(card: Card) -> list[str]:
    """Names of the rows; a few where shapes are tiny."""
    return [row.id for row in rows()][:: 3 if card.tiny else 1]


def run(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """A row for each of the table's as it is done."""
    for one in rows():
        if one.id in wanted:
            yield row(one, card)


def row(published: Row, card: Card) -> dict[str, Any]:
    """Seconds a step and bytes of both steps, and their ratios."""
    shape = Shape.of(published)
    shape = shape.tiny() if card.tiny else shape
    ours = _timed(shape.ours())
    plain = _timed(shape.plain())
    peaks = ours["peak_bytes"], plain["peak_bytes"]
    known = None not in peaks and peaks[1] > peaks[0]
    return {
        "id": published.id,
        "ours": ours,
        "plain": plain,
        "step_ratio": ours["step_s"] / plain["step_s"],
        "peak_ratio": peaks[0] / peaks[1] if known else None,
        "executable_ratio": ours["executable_bytes"] / plain["executable_bytes"],
        "published": {"step_s": published.measured.step_s, "peak_bytes": published.measured.peak_bytes},
    }


@dataclass(frozen=True)
class Shape:
    """One row's model, workload and remat policy."""

    model: ModelSpec
    workload: Workload
    remat: RematName
    loss_chunk_tokens: int

    @classmethod
    def of(cls, row: Row) -> Shape:
        """What a row of the table says; a list of kept tensors by the name of the policy that keeps them."""
        kept = row.strategy.remat
        names = [name for name in get_args(RematName) if name in (kept, remat_name(kept)) or REMAT_POLICIES[name].kept == kept]
        workload = Workload(seq_len=row.workload.seq_len, global_batch=row.workload.global_batch, precision="bf16")
        return cls(ModelSpec.model_validate(row.model), workload, names[0], row.strategy.loss_chunk_tokens)

    def tiny(self) -> Shape:
        """The same few layers, narrow."""
        small = {"d_model": 128, "d_ff": 256, "heads": 4, "kv_heads": 2, "head_dim": 32, "vocab": 512}
        workload = self.workload.model_copy(update={"seq_len": TINY_TOKENS})
        return replace(self, model=self.model.model_copy(update=small), workload=workload, loss_chunk_tokens=TINY_TOKENS // 8)

    @property
    def strategy(self) -> Strategy:
        """lcplan's on one device."""
        return Strategy(mesh=Mesh(), remat=self.remat, loss_chunk_tokens=self.loss_chunk_tokens)

    def ours(self) -> Any:
        """lcplan's step."""
        spec = StepSpec(self.model, self.workload, self.strategy, kernel=default_kernel(jax.default_backend()))
        return build_step(spec, build_mesh(self.strategy, jax.devices()[:1]))

    def plain(self) -> PlainStep:
        """The plain one."""
        attention = "cudnn" if jax.default_backend() == "gpu" else "xla"
        return PlainStep(self.model, self.workload.seq_len, self.remat, attention)


@dataclass(frozen=True)
class Ready:
    """A step that is compiled."""

    step: Any
    jitted: Any

    def init(self, key: jax.Array) -> Any:
        """The step's."""
        return self.step.init(key)

    def example_batch(self, key: jax.Array) -> Any:
        """The step's."""
        return self.step.example_batch(key)


def _timed(step: Any) -> dict[str, Any]:
    """What ``time_step`` says, and what the executable needs by its own account."""
    compiled = step.jitted.lower(*step.abstract_arguments()).compile()
    sizes = compiled.memory_analysis()
    need = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes
    facts = time_step(Ready(step, compiled), SAMPLING)
    jax.clear_caches()
    if facts.get("error"):
        raise RuntimeError(facts["error"])
    return {**{name: facts[name] for name in ("step_s", "samples", "loss", "peak_bytes")}, "executable_bytes": int(need)}
