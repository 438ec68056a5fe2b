"""Compile the stages of a pipeline as programs of their own, as trainers with one program per stage run them.

``python benchmarks/stage_programs.py`` writes tests/cost_models/data/stage_programs.json. Each row is one kind of stage: the
first has the embedding, the last has the head and the loss. Its programs run on the stage's own devices: forward, which returns
the saved tensors; backward, which takes them and adds to the gradients; of the last stage both in one. CPU only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.targets.device_mesh import build_mesh
from planner.measure.targets.toolchain import probe
from planner.measure.work import ProgramWork
from planner.measure.workers.job import CompileJob
from strategies.inputs.step_spec import StepSpec
from strategies.layers.activation import rms_norm
from strategies.layers.rope import angles
from strategies.model.decoder import Decoder
from strategies.model.embedding import embed
from strategies.model.loss import Head, Hidden, Targets, vocabulary_loss
from strategies.parallel.mesh import BATCH_AXES, CONTEXT, TENSOR
from strategies.parallel.placement import partition_specs
from strategies.pipeline.chunk import Stage, Visit
from strategies.schemes.documents import TokenFacts
from strategies.schemes.layout import local_positions

OUT = Path(__file__).parents[1] / "tests" / "cost_models" / "data" / "stage_programs.json"
TOKENS = P(BATCH_AXES, CONTEXT)
ROWS = P((*BATCH_AXES, CONTEXT, TENSOR))
SAVED = P(None, (*BATCH_AXES, CONTEXT, TENSOR))
KINDS = {"first": ("embedding", "layers"), "middle": ("layers",), "last": ("layers", "norm", "head")}
CASES: list[dict[str, Any]] = [
    {"model": "llama3-8b", "hardware": "gb200-nvl72", "seq_len": 131072, "pipe": 4, "mesh": {"context": 4, "tensor": 2}},
    {"model": "llama3-8b", "hardware": "dgx-h100x4", "seq_len": 8192, "pipe": 4, "mesh": {"fsdp": 8}, "remat": "save-all"},
    {"model": "llama3.1-70b", "hardware": "gb200-nvl72", "seq_len": 65536, "pipe": 8, "mesh": {"context": 2, "tensor": 4}},
]
"""``pipe`` is the number of stages; the mesh is that of one of them."""


@dataclass(frozen=True)
class StagePrograms:
    """The programs of one kind of stage; everything inside ``shard_map``, where all lengths are local."""

    spec: StepSpec
    """The model has the layers of one stage."""
    kind: str
    graph: Any

    def start(self, params: Any, given: Any) -> Any:
        """The rows that enter the layers."""
        if self.kind != "first":
            return given
        return embed(params["embedding"][...], given.reshape(-1), numerics=self.spec.numerics)

    def stage(self, params: Any) -> tuple[Stage, Visit]:
        """The layers, and one visit of them."""
        spec = self.spec
        positions = local_positions(spec.strategy, spec.local_seq_len)
        facts = TokenFacts(angles(spec.model, seq_len=spec.workload.seq_len, positions_T=positions), None)
        stage = Stage.of(spec, nnx.merge(self.graph, params["layers"]))
        return stage, Visit(jnp.bool_(True), jnp.int32(0), jnp.int32(0), facts)

    def forward(self, params: Any, given: Any) -> tuple[Any, Any]:
        """Rows that leave the stage, and its saved tensors."""
        x_RD = self.start(params, given)
        stage, visit = self.stage(params)
        stash = stage.stash(1, jax.ShapeDtypeStruct(x_RD.shape, x_RD.dtype), visit.facts)
        y_RD, stash, _ = stage.forward(x_RD, stash, visit)
        return y_RD, jax.tree.leaves(stash)

    def backward(self, params: Any, given: Any, saved: list[Any], dy_RD: Any, sums: Any) -> tuple[Any, Any]:
        """The gradient of the rows that entered, and the gradients so far."""
        stage, visit = self.stage(params)
        dx_RD, layers = stage.backward(dy_RD, (tuple(saved),), (sums["layers"],), visit)
        sums = {**sums, "layers": layers[0]}
        if self.kind == "first":
            table = jax.vjp(lambda table: self.start({"embedding": table}, given), params["embedding"])[1](dx_RD)[0]
            sums["embedding"] = jax.tree.map(jnp.add, sums["embedding"], table)
        return dx_RD, sums

    def both(self, params: Any, given: Any, targets: Any, sums: Any) -> tuple[Any, Any, Any]:
        """The last stage: forward, loss and backward of one microbatch."""
        y_RD, saved = self.forward(params, given)
        spec, scale = self.spec, jnp.float32(1 / self.spec.workload.tokens)

        def loss(norm: Any, head: Any, y_RD: Any) -> Any:
            hidden = Hidden(rms_norm(y_RD, norm[...], eps=spec.model.norm_eps), head[...])
            return vocabulary_loss(hidden, Targets(targets.reshape(-1), scale), head=Head.of(spec))

        value, (norm, head, dy_RD) = jax.value_and_grad(loss, argnums=(0, 1, 2))(params["norm"], params["head"], y_RD)
        sums = sums | {name: jax.tree.map(jnp.add, sums[name], own) for name, own in (("norm", norm), ("head", head))}
        dx_RD, sums = self.backward(params, given, saved, dy_RD, sums)
        return lax.psum(value, (*BATCH_AXES, CONTEXT)), dx_RD, sums


def compiled(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compile the programs of each kind of stage; yield their sizes [bytes per device]."""
    whole = catalog.model(case["model"])
    model = whole.model_copy(update={"layers": whole.layers // case["pipe"]})
    strategy = Strategy(mesh=Mesh(**case["mesh"]), remat=case.get("remat", "full"))
    workload = Workload(seq_len=case["seq_len"], global_batch=strategy.mesh.batch_ranks)
    job = CompileJob(model=model, hardware=catalog.hardware(case["hardware"]), workload=workload, strategy=strategy)
    work = ProgramWork(job, "compile", toolchain=probe())
    spec = StepSpec(model, workload, strategy, work.resolved.kernel, platform="gpu")
    mesh = build_mesh(work.target, strategy)
    graph, params = nnx.split(nnx.eval_shape(lambda: Decoder(spec, nnx.Rngs(params=0))), nnx.Param)
    layers = nnx.split(nnx.merge(graph, params).layers)[0]
    for kind, names in KINDS.items():
        programs = StagePrograms(spec, kind, layers)
        own = {name: params[name] for name in names}, {name: partition_specs(spec, params)[name] for name in names}
        row = {**case, "kind": kind, "state_bytes": _state(*own, mesh), "programs": {}}
        for name, sizes in _programs(programs, *own, mesh):
            row["programs"][name] = sizes
        yield row


def _programs(programs: StagePrograms, params: Any, specs: Any, mesh: Any) -> Iterator[tuple[str, dict[str, int]]]:
    spec, last = programs.spec, programs.kind == "last"
    sequences, length = spec.workload.global_batch, spec.workload.seq_len
    tokens = _abstract(jax.ShapeDtypeStruct((sequences, length), jnp.int32), TOKENS, mesh)
    rows = _abstract(jax.ShapeDtypeStruct((sequences * length, spec.model.d_model), spec.numerics.compute), ROWS, mesh)
    own, given = _abstract(params, specs, mesh), (tokens, TOKENS) if programs.kind == "first" else (rows, ROWS)
    if last:
        outs = P(), ROWS, specs
        yield "both", _sizes(programs.both, (own, rows, tokens, own), (specs, ROWS, TOKENS, specs), outs, mesh, donated=(1, 3))
        return
    arguments, splits = (own, given[0]), (specs, given[1])
    leaves = jax.eval_shape(_mapped(programs.forward, splits, (ROWS, SAVED), mesh), *arguments)[1]
    yield "forward", _sizes(programs.forward, arguments, splits, (ROWS, SAVED), mesh)
    saved = [_abstract(leaf, SAVED, mesh) for leaf in leaves]
    arguments, splits = (own, given[0], saved, rows, own), (specs, given[1], SAVED, ROWS, specs)
    yield "backward", _sizes(programs.backward, arguments, splits, (ROWS, specs), mesh, donated=(3, 4))


def _mapped(program: Callable[..., Any], ins: Any, outs: Any, mesh: Any) -> Callable[..., Any]:
    return jax.shard_map(program, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)


def _sizes(
    program: Callable[..., Any], arguments: Any, ins: Any, outs: Any, mesh: Any, donated: tuple[int, ...] = ()
) -> dict[str, int]:
    step = jax.jit(_mapped(program, ins, outs, mesh), donate_argnums=donated)
    stats = step.lower(*arguments).compile().memory_analysis()
    return {name: int(getattr(stats, f"{name}_size_in_bytes")) for name in ("argument", "output", "temp", "alias")}


def _abstract(tree: Any, splits: Any, mesh: Any) -> Any:
    def placed(shape: Any, split: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=NamedSharding(mesh, split))

    return jax.tree.map(lambda split, shape: placed(shape, split), splits, tree, is_leaf=lambda x: isinstance(x, P))


def _state(params: Any, specs: Any, mesh: Any) -> int:
    """Parameters of a stage [bytes per device]."""
    leaves = jax.tree.leaves(_abstract(params, specs, mesh))
    return int(sum(np.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in leaves))


def main() -> None:
    """Compile all cases, writing after each."""
    rows = []
    for case in CASES:
        for row in compiled(case):
            print(json.dumps(row), flush=True)
            rows.append(row)
    OUT.write_text(json.dumps({"jax": jax.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
