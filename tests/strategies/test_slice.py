"""One rank alone does the work of one rank among others: the same products, finite numbers, a rank's own shapes."""

import jax
import numpy as np
import pytest

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.parallel.ranks import is_alone
from strategies.train.rank_slice import build_slice, slowest_rank
from strategies.train.step import build_step

MODEL = ModelSpec(name="toy", layers=2, d_model=64, d_ff=128, heads=8, kv_heads=4, head_dim=8, vocab=128)


def spec_of(model: ModelSpec = MODEL, **fields) -> StepSpec:
    strategy = Strategy(backend="host", loss_chunk_tokens=32, **fields)
    workload = Workload(seq_len=256, global_batch=4, precision="fp32")
    return StepSpec(model=model, workload=workload, strategy=strategy, kernel="blockwise")


STRATEGIES = [
    {"mesh": Mesh(fsdp=2, context=2, tensor=2), "scheme": "ring-zigzag"},
    {"mesh": Mesh(context=4, tensor=2), "scheme": "ring", "remat": "save-all"},
    {"mesh": Mesh(fsdp=2, context=4), "scheme": "all-gather", "remat": "save-qkv"},
    {"mesh": Mesh(context=4, tensor=2), "scheme": "ulysses", "microbatches": 2},
    {"mesh": Mesh(data=2, context=2, tensor=2), "scheme": "ring-zigzag", "collective_matmul": "two-way"},
]


@pytest.mark.parametrize("fields", STRATEGIES, ids=lambda fields: fields["mesh"].label + " " + fields["scheme"])
def test_a_slice_does_the_work_of_one_rank(fields):
    spec = spec_of(**fields)
    whole = build_step(spec, build_mesh(spec.strategy, jax.devices()[:8]))
    part = build_slice(spec)
    state, batch = part.init(jax.random.key(0)), part.example_batch(jax.random.key(1))
    shards = whole.init(jax.random.key(0)).params
    assert jax.tree.map(lambda x: x.shape, state.params) == jax.tree.map(lambda x: x.addressable_shards[0].data.shape, shards)
    ours = part.jitted.lower(state, batch).compile().cost_analysis()["flops"]
    theirs = whole.jitted.lower(*whole.abstract_arguments()).compile().cost_analysis()["flops"]
    assert ours == pytest.approx(theirs, rel=0.1)  # stand-ins add what sums of parts cost, reductions take theirs away
    state, metrics = part.jitted(state, batch)
    assert np.isfinite(metrics.loss)
    assert not is_alone()


def test_the_slowest_rank_of_a_ring_is_the_last():
    rank = slowest_rank(spec_of(mesh=Mesh(fsdp=2, context=4)))
    assert (rank.places["context"], rank.places["fsdp"]) == (3, 0)


def test_modes_that_have_no_rank_of_their_own_are_refused():
    with pytest.raises(BadInputError, match="a slice is one rank of the manual step of a dense model; time the whole step"):
        build_slice(spec_of(mesh=Mesh(fsdp=2), sharding_mode="auto"))
