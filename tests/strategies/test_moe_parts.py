"""Parts of the mixture of experts by themselves: products against einsum, the ragged exchange that no host can run, places."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from lcplan.strategy import Mesh, Strategy
from strategies.moe import exchange
from strategies.moe.capacity_rows import RowCapacity
from strategies.moe.products import BlockProducts, EvenProducts, RaggedProducts
from strategies.parallel.collectives import Ragged
from strategies.parallel.compute_in_place import zeros_after
from strategies.parallel.mesh import EXPERT, build_mesh

SIZES = np.array([5, 0, 9, 3], np.int32)
D, F, SPARE = 6, 4, 4


def operands(rows):
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape).astype(np.float32) for shape in ((rows, D), (rows, F), (D, len(SIZES), F)))


@pytest.mark.parametrize("products", [BlockProducts(jnp.asarray(SIZES), SPARE), RaggedProducts(jnp.asarray(SIZES))], ids=type)
def test_products_of_sorted_rows_are_those_with_each_rows_expert(products):
    used = SIZES.sum()
    rows_RD, rows_RF, weights = operands(used + SPARE)
    expert = np.repeat(np.arange(len(SIZES)), SIZES)
    with jax.default_matmul_precision("highest"):
        up, down = products.up(rows_RD, weights), products.down(rows_RF, weights)
        outer = products.outer(rows_RD, rows_RF, dtype=jnp.float32)
    np.testing.assert_allclose(up[:used], np.einsum("rd,drf->rf", rows_RD[:used], weights[:, expert]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(down[:used], np.einsum("rf,drf->rd", rows_RF[:used], weights[:, expert]), rtol=1e-5, atol=1e-5)
    wanted = np.zeros_like(weights)
    for row in range(used):
        wanted[:, expert[row]] += np.outer(rows_RD[row], rows_RF[row])
    np.testing.assert_allclose(outer, wanted, rtol=1e-5, atol=1e-5)
    assert np.isfinite(up).all()
    assert np.isfinite(down).all()


def test_zeros_after_an_anchor_are_zeros_that_need_it():
    zeros = zeros_after(jnp.ones((2, 3), jnp.bfloat16), shape=(4, 5), dtype=jnp.float32)
    assert (zeros.shape, zeros.dtype, bool(zeros.any())) == ((4, 5), jnp.float32, False)
    assert jnp.isnan(zeros_after(jnp.full(3, jnp.nan), shape=(4, 5), dtype=jnp.bfloat16)).all()


def test_buffers_that_a_block_loop_fills_do_not_exist_before_its_rows_do():
    """Constants would: XLA fills those of all layers of a turn at once. What no block reaches shows what is filled."""
    products, last = BlockProducts(jnp.asarray(SIZES), SPARE), SIZES.sum() + 1
    rows_RD, rows_RF, weights = operands(SIZES.sum() + SPARE)
    rows_RD[0, 0] = rows_RF[0, 0] = np.nan
    assert np.isnan(products.up(rows_RD, weights)[last:]).all()
    assert np.isnan(products.down(rows_RF, weights)[last:]).all()
    assert np.isnan(products.outer(rows_RD, rows_RF, dtype=jnp.float32)[:, SIZES == 0]).all()


def test_even_products_are_block_products_of_even_sizes():
    rows_RD, rows_RF, weights = operands(8 + 2)
    even, blocks = EvenProducts(4), BlockProducts(jnp.full(4, 2), 2)
    np.testing.assert_allclose(even.up(rows_RD[:8], weights), blocks.up(rows_RD, weights)[:8], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(even.down(rows_RF[:8], weights), blocks.down(rows_RF, weights)[:8], rtol=1e-5, atol=1e-5)
    sums = blocks.outer(rows_RD, rows_RF, dtype=jnp.float32)
    np.testing.assert_allclose(even.outer(rows_RD[:8], rows_RF[:8], dtype=jnp.float32), sums, rtol=1e-5, atol=1e-5)


def emulated(x, into, runs: Ragged, axis):
    """What ``lax.ragged_all_to_all`` is documented to do, from gathered operands: run by run, row by row."""
    me, ranks = lax.axis_index(axis), lax.axis_size(axis)
    per = runs.starts.shape[0] // ranks
    x, starts, sizes, targets = (lax.all_gather(part, axis) for part in (x, runs.starts, runs.sizes, runs.targets))
    own = jnp.arange(per) + me * per
    for sender in range(ranks):
        for run in range(per):
            first, size, target = starts[sender, own[run]], sizes[sender, own[run]], targets[sender, own[run]]
            place = jnp.arange(into.shape[0])
            inside = (place >= target) & (place < target + size)
            moved = x[sender].at[first + place - target].get(mode="clip")
            into = jnp.where(inside.reshape(-1, *(1,) * (into.ndim - 1)), moved, into)
    return into


@pytest.mark.parametrize("percent", [0, 200, 60])
def test_the_ragged_exchange_is_the_even_one_where_all_find_room_and_its_ways_are_transposes(monkeypatch, percent):
    monkeypatch.setattr(exchange, "ragged_all_to_all", lambda x, into, runs, *, axis: emulated(x, into, runs, axis))
    mesh = build_mesh(Strategy(mesh=Mesh(expert=4)), jax.devices()[:4])
    tokens, chosen = 10, 3
    capacity = RowCapacity(tokens=tokens, chosen=chosen, experts=8, ranks=4, percent=percent)
    rng = np.random.default_rng(1)
    experts = np.stack([rng.choice(8, chosen, replace=False) for _ in range(4 * tokens)]).astype(np.int32)
    x = rng.normal(size=(4 * tokens, D)).astype(np.float32)
    rows = rng.normal(size=(4 * (capacity.rows + exchange.block_rows(capacity)), D)).astype(np.float32)

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(EXPERT),) * 3, out_specs=P(EXPERT), check_vma=False)
    def ways(experts, x, rows):
        ragged = exchange.exchange(experts, capacity=capacity, platform="gpu")
        assert isinstance(ragged, exchange.RaggedExchange)
        return ragged.dispatch(x), ragged.combine(rows), ragged.dropped()[None], ragged.sizes[None]

    out, combined, dropped, sizes = ways(experts, x, rows)
    assert np.vdot(out, rows) == pytest.approx(np.vdot(x, combined), rel=1e-4)  # <A x, y> = <x, A' y>
    per_rank = np.asarray(out).reshape(4, -1, D)
    assert dropped.sum() == experts.size - np.asarray(sizes).sum()
    assert (dropped.sum() == 0) == (percent != 60)
    for rank in range(4):  # by expert, then by token; rows beyond the capacity come last
        wanted = [x[token] for expert in (2 * rank, 2 * rank + 1) for token, own in enumerate(experts) if expert in own]
        wanted = wanted[: capacity.rows]
        np.testing.assert_array_equal(per_rank[rank, : len(wanted)], wanted)
        assert not per_rank[rank, len(wanted) :].any()
