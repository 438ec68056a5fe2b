"""The decode step as the target's own compiler has it: no layer of the cache is copied, on TPU and on GPU."""

import pytest
from on_target import needs_gpu_compiler, needs_tpu_compiler, said_by

WORK = {"prompt": 1024, "generate": 1024}
SMALL = {"layers": 4, "d_model": 512, "d_ff": 1024, "vocab": 2048}
"""A small model with Qwen3-1.7B's heads, whose cache is larger than all else."""
V4 = {"hardware": "tpu-v4-32", "mesh": {"data": 16}, "work": {**WORK, "batch": 16 * 32}}
H100 = {"hardware": "dgx-h100", "mesh": {"data": 8}, "work": {**WORK, "batch": 8 * 32}}
LAYER = 2 * 32 * 8 * 2048 * 128
"""Elements of one layer's keys and values."""
BYTES = {"bf16": 2, "fp32": 4, "fp8": 1}


def decode(target, **work):
    return said_by("target_decode.py", **target | {"changes": SMALL, "work": target["work"] | work})


def assert_in_place(found, kv_dtype):
    """The cache is donated, and temporaries are smaller than a quarter of a layer's part of it."""
    layer = LAYER * BYTES[kv_dtype]
    assert found["alias_bytes"] >= 4 * layer
    assert found["temp_bytes"] < layer / 4
    assert found["copies"] == 0


@needs_tpu_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kv_dtype", ["bf16", "fp32", "fp8"])
def test_a_tpu_reads_the_cache_where_it_is(kv_dtype):
    assert_in_place(decode(V4, kv_dtype=kv_dtype), kv_dtype)


@needs_gpu_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kv_dtype", ["bf16", "fp32", "fp8"])
def test_a_gpu_reads_the_cache_where_it_is(kv_dtype):
    assert_in_place(decode(H100, kv_dtype=kv_dtype), kv_dtype)


@needs_gpu_compiler
@pytest.mark.slow
def test_heads_that_the_kernel_does_not_take_are_copied():
    found = said_by("target_decode.py", **H100 | {"changes": SMALL | {"head_dim": 96}})
    assert found["temp_bytes"] > LAYER * 2 * 96 / 128
