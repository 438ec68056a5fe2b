"""A matrix as a TPU's tiles, and what is scattered as such."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from strategies.parallel.collectives import from_tiles, in_tiles, reduce_scatter, reduce_scatter_tiles

MESH = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("fsdp", "context"))
AXES = ("fsdp", "context")


def scattered(scatter, x):
    own = jax.shard_map(
        lambda x: scatter(x * (1 + jax.lax.axis_index("context")), axes=AXES),
        mesh=MESH, in_specs=P(), out_specs=P(AXES), check_vma=False,
    )  # fmt: skip
    return jax.jit(own)(x)


def matrix(rows, columns):
    return jax.random.normal(jax.random.key(0), (rows, columns), jnp.float32)


def test_tiles_hold_eight_rows_of_128_columns_each():
    x = matrix(32, 384)
    tiles = in_tiles(x)
    assert tiles.shape == (4, 3, 8, 128)
    assert jnp.array_equal(tiles[1, 2], x[8:16, 256:])
    assert jnp.array_equal(from_tiles(tiles), x)
    assert jnp.array_equal(from_tiles(tiles[2:]), x[16:])


def test_scattered_tiles_are_the_rows_that_are_scattered():
    x, plain = matrix(64, 384), partial(reduce_scatter)
    by_tiles = scattered(lambda x, axes: from_tiles(plain(in_tiles(x), axes)), x)
    assert by_tiles == pytest.approx(scattered(plain, x))
    assert by_tiles == pytest.approx(6 * x)  # 1 + 2 over context, twice over fsdp


@pytest.mark.parametrize(("rows", "columns"), [(64, 384), (16, 384), (64, 200)])
def test_any_matrix_is_scattered(rows, columns):
    """Of whole tiles on each of four ranks, of half a tile, of columns that fill none; on TPU the first goes by tiles."""
    x = matrix(rows, columns)
    text = str(jax.make_jaxpr(lambda x: scattered(reduce_scatter_tiles, x))(x))
    assert ("8,128]" in text) == ((rows, columns) == (64, 384))
    assert scattered(reduce_scatter_tiles, x) == pytest.approx(6 * x)
