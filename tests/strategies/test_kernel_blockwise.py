"""The blockwise kernel against plain softmax attention, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strategies.kernels import chunk_kernel
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Attended
from strategies.schemes.merge import Merged

B, T, N, K, H = 2, 24, 6, 2, 8  # three query heads share a key/value head


def arrays(keys=T, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    q, do = (jnp.asarray(rng.normal(size=(B, T, N, H)), dtype) for _ in range(2))
    return q, jnp.asarray(rng.normal(size=(2, B, keys, K, H)), dtype), do


def plain(q, kv, mask):
    key, value = (jnp.repeat(x, N // K, axis=2) for x in kv)
    scores = jnp.einsum("btnh,bsnh->bnts", q, key) / np.sqrt(H)
    if mask == "causal":
        scores = jnp.where(np.tri(T, dtype=bool), scores, -jnp.inf)
    o = jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), value)
    return Attended(o, jax.nn.logsumexp(scores, axis=-1))


def close(got, wanted, bound=1e-6):
    return np.linalg.norm(got - wanted) < bound * np.linalg.norm(wanted)


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("blocks", [(24, 24), (8, 4), (4, 8), (7, 100)])  # 7 does not divide 24: blocks of 6
def test_equals_plain_attention(mask, blocks):
    q, kv, do = arrays()
    kernel = BlockwiseKernel(*blocks)
    wanted, pullback = jax.vjp(lambda q, kv: plain(q, kv, mask).o, q, kv)
    attended = kernel.forward(q, kv, mask=mask)
    assert close(attended.o, wanted)
    assert close(attended.lse, plain(q, kv, mask).lse)
    gradients = kernel.backward(q, kv, attended=attended, do=do, mask=mask)
    for got, one in zip(gradients, pullback(do), strict=True):
        assert close(got, one)


def test_a_strategys_block_is_the_kernels():
    assert chunk_kernel("blockwise", block=64) == BlockwiseKernel(64, 128)
    assert chunk_kernel("blockwise") == BlockwiseKernel(512, 1024)


def test_gradients_of_chunks_add_up_under_the_global_output():
    q, kv, do = arrays(keys=40)
    kernel, chunks = BlockwiseKernel(8, 8), (kv[:, :, :16], kv[:, :, 16:])
    merged = Merged.of(kernel.forward(q, chunks[0], mask="full")).with_chunk(kernel.forward(q, chunks[1], mask="full"))
    wanted, pullback = jax.vjp(lambda q, kv: plain(q, kv, "full").o, q, kv)
    assert close(merged.o, wanted)
    parts = [kernel.backward(q, chunk, attended=Attended(*merged), do=do, mask="full") for chunk in chunks]
    dq, dkv = pullback(do)
    assert close(parts[0].dq + parts[1].dq, dq)
    assert close(jnp.concatenate([part.dkv for part in parts], axis=2), dkv)


def test_a_chunk_that_no_query_sees_changes_nothing():
    q, kv, _ = arrays()
    seen = Merged.of(BlockwiseKernel().forward(q, kv, mask="causal"))
    both = seen.with_chunk(Attended(jnp.zeros_like(q), jnp.full((B, N, T), -jnp.inf)))
    assert np.array_equal(both.o, seen.o)
    assert np.array_equal(both.lse, seen.lse)


def test_bf16_in_bf16_out_with_fp32_statistics():
    q, kv, do = arrays(dtype=jnp.bfloat16)
    kernel = BlockwiseKernel(8, 8)
    attended = kernel.forward(q, kv, mask="causal")
    gradients = kernel.backward(q, kv, attended=attended, do=do, mask="causal")
    assert attended.lse.dtype == jnp.float32
    assert {x.dtype for x in (attended.o, *gradients)} == {jnp.dtype(jnp.bfloat16)}
    wide = [x.astype(jnp.float32) for x in (q, kv, do)]
    wanted, pullback = jax.vjp(lambda q, kv: plain(q, kv, "causal").o, *wide[:2])
    for got, one in zip((attended.o, *gradients), (wanted, *pullback(wide[2])), strict=True):
        assert close(got.astype(jnp.float32), one, bound=0.01)  # a bf16 carries 8 bits


def test_no_score_matrix_of_the_whole_chunk():
    shape = jax.ShapeDtypeStruct((1, 64, N, H), jnp.float32), jax.ShapeDtypeStruct((2, 1, 64, K, H), jnp.float32)
    text = jax.jit(lambda q, kv: BlockwiseKernel(8, 8).forward(q, kv, mask="causal")).lower(*shape).as_text()
    assert "x8x8xf32" in text
    assert "64x64" not in text
