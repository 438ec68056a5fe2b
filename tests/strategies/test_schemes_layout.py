"""Where tokens lie, and how much each rank works: counted in real kernel calls on eight devices."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from lcplan.strategy import Mesh, Strategy
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.mesh import CONTEXT, build_mesh
from strategies.schemes.all_gather import all_gather_attention
from strategies.schemes.layout import local_positions, token_order
from strategies.schemes.pattern import pattern_of
from strategies.schemes.ring import ring_attention

RANKS, LENGTH = 8, 4
MESH = build_mesh(Strategy(mesh=Mesh(context=RANKS)), jax.devices()[:RANKS])


class CountingKernel(BlockwiseKernel):
    """Adds up the score elements that each rank computes; a causal call has half of its square."""

    work: Counter = Counter()

    def forward(self, q, kv, *, mask):
        area = q.shape[1] * kv.shape[2] / (2 if mask == "causal" else 1)
        jax.debug.callback(lambda rank: self.work.update({int(rank): area}), lax.axis_index(CONTEXT))
        return super().forward(q, kv, mask=mask)


def work_by_rank(attention, scheme):
    CountingKernel.work.clear()
    q, kv = jnp.ones((1, RANKS * LENGTH, 1, 4)), jnp.ones((2, 1, RANKS * LENGTH, 1, 4))
    pattern = pattern_of(scheme, CountingKernel())
    specs = P(None, CONTEXT), P(None, None, CONTEXT)
    attend = jax.shard_map(
        lambda q, kv: attention(q, kv, pattern=pattern), mesh=MESH, in_specs=specs, out_specs=specs[0], check_vma=False
    )
    jax.block_until_ready(jax.jit(attend)(q, kv))
    jax.effects_barrier()
    return [CountingKernel.work[rank] for rank in range(RANKS)]


def test_contiguous_ring_waits_for_its_last_rank():
    work = work_by_rank(ring_attention, "ring")
    assert work == [LENGTH**2 * (rank + 1 / 2) for rank in range(RANKS)]
    assert max(work) / np.mean(work) == (2 * RANKS - 1) / RANKS


@pytest.mark.parametrize(("attention", "scheme"), [(ring_attention, "ring-zigzag"), (all_gather_attention, "all-gather")])
def test_zigzag_works_equally(attention, scheme):
    assert work_by_rank(attention, scheme) == [LENGTH**2 * RANKS / 2] * RANKS


def test_zigzag_order_pairs_early_with_late():
    assert token_order("ring-zigzag", seq_len=8, context=2).tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert token_order("ring", seq_len=8, context=2).tolist() == list(range(8))
    assert token_order("ring-zigzag", seq_len=8, context=1).tolist() == list(range(8))


@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "all-gather", "ulysses"])
def test_positions_are_the_tokens_own(scheme):
    positions = jax.shard_map(
        lambda: local_positions(scheme, LENGTH), mesh=MESH, in_specs=(), out_specs=P(CONTEXT), check_vma=False
    )
    assert np.array_equal(jax.jit(positions)(), token_order(scheme, seq_len=RANKS * LENGTH, context=RANKS))
