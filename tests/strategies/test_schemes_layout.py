"""Where tokens lie, and how much each rank works: counted in real kernel calls on eight devices."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from cost_models.attention.work import causal_imbalance
from cost_models.masks.documents import Chunks, visited_keys
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEME_FACTS, Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.parallel.mesh import CONTEXT, build_mesh
from strategies.schemes import attend_with
from strategies.schemes.documents import cut
from strategies.schemes.layout import local_positions, token_order

RANKS, LENGTH, HEADS = 8, 4, 4
MODEL = ModelSpec(name="heads", layers=1, d_model=16, d_ff=16, heads=HEADS, kv_heads=HEADS, head_dim=4, vocab=16)
MESH = build_mesh(Strategy(mesh=Mesh(context=RANKS)), jax.devices()[:RANKS])


def over_context(scheme, context=RANKS, **fields):
    return Strategy(mesh=Mesh(context=context), scheme=scheme, **fields)


class CountingKernel(BlockwiseKernel):
    """Adds up the score elements that each rank computes; a causal call has half of its square."""

    work: Counter = Counter()

    def forward(self, q, kv, *, mask, segments=None):
        area = q.shape[1] * kv.shape[2] / (2 if mask == "causal" else 1) * q.shape[2] / HEADS
        jax.debug.callback(lambda rank: self.work.update({int(rank): area}), lax.axis_index(CONTEXT))
        return super().forward(q, kv, mask=mask, segments=segments)


def work_by_rank(strategy, document_len=None):
    """In score elements of all heads."""
    CountingKernel.work.clear()
    q, kv = jnp.ones((1, RANKS * LENGTH, HEADS, 4)), jnp.ones((2, 1, RANKS * LENGTH, HEADS, 4))
    workload = Workload(seq_len=RANKS * LENGTH, global_batch=1)
    spec = StepSpec(MODEL, workload, strategy, "blockwise")
    specs = P(None, CONTEXT), P(None, None, CONTEXT)
    documents = None
    if document_len is not None:
        documents = cut(jnp.asarray(token_order(strategy, seq_len=RANKS * LENGTH) // document_len)[None], RANKS)
    attend = jax.shard_map(
        lambda q, kv: attend_with(q, kv, kernel=CountingKernel(), spec=spec, documents=documents),
        mesh=MESH,
        in_specs=specs,
        out_specs=specs[0],
        check_vma=False,
    )
    jax.block_until_ready(jax.jit(attend)(q, kv))
    jax.effects_barrier()
    return [CountingKernel.work[rank] for rank in range(RANKS)]


@pytest.mark.parametrize("document_len", [LENGTH // 4, 3 * LENGTH, 7 * LENGTH // 2])
@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "all-gather"])
def test_chunks_that_share_no_document_are_not_visited(scheme, document_len):
    """And the law says by how much each rank's work shrinks."""
    work = work_by_rank(over_context(scheme), document_len)
    _, others = visited_keys(Chunks(RANKS, LENGTH, scheme != "ring"), document_len, whole=True)
    assert work == [LENGTH**2 / 2 + LENGTH * keys for keys in others]


@pytest.mark.parametrize("bidirectional", ["off", "on"])
def test_contiguous_ring_waits_for_its_last_rank(bidirectional):
    work = work_by_rank(over_context("ring", bidirectional=bidirectional))
    assert work == [LENGTH**2 * (rank + 1 / 2) for rank in range(RANKS)]
    assert max(work) / np.mean(work) == causal_imbalance(np.array(float(RANKS))) == (2 * RANKS - 1) / RANKS


@pytest.mark.parametrize(
    "fields",
    [
        {"scheme": "ring-zigzag"},
        {"scheme": "ring-zigzag", "bidirectional": "on"},
        {"scheme": "all-gather"},
        {"scheme": "ulysses-ring", "ulysses": 2},
        {"scheme": "ulysses-ring", "ulysses": 2, "bidirectional": "on"},
        {"scheme": "ulysses-ring", "ulysses": 4},
    ],
)
def test_balanced_schemes_work_equally(fields):
    assert SCHEME_FACTS[fields["scheme"]].balanced
    assert work_by_rank(over_context(**fields)) == [LENGTH**2 * RANKS / 2] * RANKS


def test_zigzag_order_pairs_early_with_late():
    assert token_order(over_context("ring-zigzag", context=2), seq_len=8).tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert token_order(over_context("ring", context=2), seq_len=8).tolist() == list(range(8))
    assert token_order(over_context("ring-zigzag", context=1), seq_len=8).tolist() == list(range(8))


def test_groups_that_exchange_hold_what_a_zigzag_rank_would():
    mixed, zigzag = over_context("ulysses-ring", context=4, ulysses=2), over_context("ring-zigzag", context=2)
    assert token_order(mixed, seq_len=8).tolist() == token_order(zigzag, seq_len=8).tolist()


@pytest.mark.parametrize(
    "fields",
    [{"scheme": scheme} for scheme in ("ring", "ring-zigzag", "all-gather", "ulysses")]
    + [{"scheme": "ulysses-ring", "ulysses": size} for size in (2, 4)],
    ids=str,
)
def test_positions_are_the_tokens_own(fields):
    strategy = over_context(**fields)
    positions = jax.shard_map(
        lambda: local_positions(strategy, LENGTH), mesh=MESH, in_specs=(), out_specs=P(CONTEXT), check_vma=False
    )
    assert np.array_equal(jax.jit(positions)(), token_order(strategy, seq_len=RANKS * LENGTH))
