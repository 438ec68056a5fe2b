"""What libtpu makes of a reduce-scatter: the laws' rule for whole slices, and a head's awkward columns as tiles."""

import pytest
from on_target import needs_tpu_compiler, said_by

from cost_models.collectives.libtpu_reductions import sums_everywhere
from lcplan.catalog import hardware

pytestmark = [pytest.mark.tpu_target, needs_tpu_compiler]
QWEN3_HEAD = (2048, 151936)
"""D and V of Qwen3-1.7B: rows of 1187 tiles, a prime."""


def scattered(name, shape=(4096, 4096), *, tiles=False):
    return [tuple(row) for row in said_by("target_scatter.py", hardware=name, shape=shape, tiles=tiles)]


def test_a_head_with_awkward_columns_is_scattered_as_tiles():
    size = 4 * 2048 * 151936
    assert scattered("tpu-v5e-8", QWEN3_HEAD, tiles=True) == [("reduce-scatter", size)]
    assert scattered("tpu-v5e-8", QWEN3_HEAD) == [("all-reduce", size)]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [32064, 16032])
def test_columns_that_fill_no_tile_are_scattered_by_rows(columns):
    """A quarter and an eighth of Llama 3's vocabulary: 250.5 and 125.25 tiles."""
    assert scattered("tpu-v5e-8", (4096, columns), tiles=True) == [("reduce-scatter", 4 * 4096 * columns)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["tpu-v5p-8", "tpu-v5p-16", "tpu-v5p-64", "tpu-v4-16", "tpu-v5e-8", "tpu-v5e-16", "tpu-v6e-32"]
)
def test_whole_slices_are_scattered_or_summed_as_the_law_says(name):
    op = "all-reduce" if sums_everywhere(hardware(name).torus) else "reduce-scatter"
    assert scattered(name) == [(op, 4 * 4096 * 4096)]
