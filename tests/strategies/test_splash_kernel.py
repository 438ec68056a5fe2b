"""Splash on TPU in Pallas' interpreter: equal to blockwise JAX under a global output; jax's private rule as pinned."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from strategies.kernels import chunk_kernel, default_kernel
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Attended
from strategies.kernels.splash import SplashKernel, _CausalMask, _sizes


def _relative_error(found, wanted):
    return float(jnp.linalg.norm((found - wanted).ravel()) / jnp.linalg.norm(wanted.ravel()))


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "heads", "kv_heads"),
    [("causal", 256, 256, 4, 2), ("full", 256, 128, 2, 2), ("full", 128, 256, 3, 1)],
)
def test_equal_to_blockwise(mask, queries, keys, heads, kv_heads):
    one, two, three = jax.random.split(jax.random.key(0), 3)
    q = jax.random.normal(one, (2, queries, heads, 128))
    kv = jax.random.normal(two, (2, 2, keys, kv_heads, 128))
    do = jax.random.normal(three, q.shape)
    ours, reference = SplashKernel(interpret=True), BlockwiseKernel()
    found, wanted = ours.forward(q, kv, mask=mask), reference.forward(q, kv, mask=mask)
    assert _relative_error(found.o, wanted.o) < 1e-5
    assert _relative_error(found.lse, wanted.lse) < 1e-5
    elsewhere = Attended(wanted.o * 0.7, wanted.lse + 0.3)  # as if other chunks had been attended to as well
    found_gradients = ours.backward(q, kv, attended=elsewhere, do=do, mask=mask)
    wanted_gradients = reference.backward(q, kv, attended=elsewhere, do=do, mask=mask)
    assert _relative_error(found_gradients.dq, wanted_gradients.dq) < 1e-5
    assert _relative_error(found_gradients.dkv, wanted_gradients.dkv) < 1e-5


@pytest.mark.parametrize("shape", [(1024, 1024), (512, 1024), (1024, 512)])
@pytest.mark.parametrize("tile", [128, 256])
def test_the_short_answers_make_the_same_tables(shape, tile):
    """Our causal mask against jax's own: every table of tiles of all three kernels."""

    def tables(mask):
        sizes = splash.BlockSizes(*([tile] * 3), *([tile] * 3), *([tile] * 2))
        kernel = splash.make_splash_mha(masks.MultiHeadMask([mask] * 2), block_sizes=sizes, head_shards=1, q_seq_shards=1)
        return kernel.fwd_mask_info, kernel.dq_mask_info, kernel.dkv_mask_info

    leaves = [jax.tree.leaves(tables(mask)) for mask in (_CausalMask(shape), masks.CausalMask(shape))]
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*leaves, strict=True))


def test_the_private_rule_is_where_it_was():
    """A jax that moves it must fail here, and blockwise is the way out."""
    assert list(inspect.signature(splash._splash_attention_bwd).parameters) == [
        "save_residuals",
        "mask_value",
        "is_mqa",
        "block_sizes",
        "residual_checkpoint_name",
        "mask_function",
        "attn_logits_soft_cap",
        "interpret",
        "res",
        "do",
    ]


def test_tiles_of_its_own_change_no_number():
    one, two = jax.random.split(jax.random.key(1))
    q, kv = jax.random.normal(one, (1, 512, 2, 128)), jax.random.normal(two, (2, 1, 512, 1, 128))
    wanted = SplashKernel(interpret=True).forward(q, kv, mask="causal")
    found = SplashKernel(128, interpret=True).forward(q, kv, mask="causal")
    assert _relative_error(found.o, wanted.o) < 1e-5
    assert _sizes(512, 512, 128).block_kv_dkv == 128
    assert _sizes(512, 768, 512).block_kv == 256  # what 512 and 768 share


def test_tpu_gets_it():
    assert default_kernel("tpu") == "splash"
    assert isinstance(chunk_kernel("splash"), SplashKernel)
