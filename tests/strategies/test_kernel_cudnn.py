"""jax's private cuDNN primitives are where kernels/cudnn.py expects them. On failure: read the new jax, mend that one file."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import random_documents
from jax._src.cudnn import fused_attention_stablehlo as fused
from test_documents import tokens

from lcplan.strategy.attention_kernel import cudnn_largest_head_dim
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.cudnn import CudnnKernel, _beside, _bias
from strategies.kernels.interface import Attended, Segments
from strategies.schemes.merge import Merged

OPERANDS = ["query", "key", "value", "bias", "q_seqlen", "kv_seqlen", "q_offsets", "kv_offsets", "page_table_k", "page_table_v"]
PARAMETERS = ["scale", "seed", "dropout_rate", "variadic_args", "mask_type", "layout", "sliding_window_length"]


def test_the_primitives_take_what_we_give():
    forward = list(inspect.signature(fused._dot_product_attention_fwd_impl).parameters)
    backward = list(inspect.signature(fused._dot_product_attention_bwd_impl).parameters)
    newer_operands = ["score_mod_args"] if "score_mod" in forward else []  # jax 0.12
    parameters = [*PARAMETERS, "score_mod"] if newer_operands else PARAMETERS
    assert forward == [*OPERANDS, *newer_operands, *parameters, "is_training"]
    assert backward == [*OPERANDS, "activation", "fwd_output", "grad_output", *newer_operands, *parameters]
    assert fused._dot_product_attention_fwd_p_wrapper.multiple_results
    assert fused._dot_product_attention_bwd_p_wrapper.multiple_results


def test_shapes_and_dtypes():
    q, kv = jax.ShapeDtypeStruct((2, 256, 6, 128), jnp.bfloat16), jax.ShapeDtypeStruct((2, 2, 128, 2, 128), jnp.bfloat16)

    def both(q, kv):
        attended = CudnnKernel().forward(q, kv, mask="full")
        return attended, CudnnKernel().backward(q, kv, attended=attended, do=attended.o, mask="full")

    attended, gradients = jax.eval_shape(both, q, kv)
    assert attended == Attended(q, jax.ShapeDtypeStruct((2, 6, 256), jnp.float32))
    assert gradients == (q, kv)


def test_documents_are_a_bias():
    q, kv = jax.ShapeDtypeStruct((2, 256, 6, 128), jnp.bfloat16), jax.ShapeDtypeStruct((2, 2, 128, 2, 128), jnp.bfloat16)
    ids = Segments(jax.ShapeDtypeStruct((2, 256), jnp.int32), jax.ShapeDtypeStruct((2, 128), jnp.int32))
    attended = jax.eval_shape(lambda *given: CudnnKernel().forward(*given[:2], mask="full", segments=given[2]), q, kv, ids)
    assert attended == Attended(q, jax.ShapeDtypeStruct((2, 6, 256), jnp.float32))
    bias = np.asarray(_bias(Segments(jnp.array([[0, 0, 1]]), jnp.array([[0, 1]])), jnp.bfloat16), np.float64)
    assert bias.tolist() == [[[[0, -(2.0**41)], [0, -(2.0**41)], [-(2.0**41), 0]]]]
    assert np.exp(bias.min() + 1e6) == 0  # and no number that a softmax cannot take


def test_documents_of_a_run_and_its_halo_are_a_square_bias():
    """Zeros stand for queries of the halo, which are of the halo's documents: they see no less than their own keys."""
    q, kv = jax.ShapeDtypeStruct((2, 256, 6, 128), jnp.bfloat16), jax.ShapeDtypeStruct((2, 2, 384, 2, 128), jnp.bfloat16)
    ids = Segments(jax.ShapeDtypeStruct((2, 256), jnp.int32), jax.ShapeDtypeStruct((2, 384), jnp.int32))

    def both(q, kv, segments):
        kernel = CudnnKernel(100)
        attended = kernel.forward(q, kv, mask="causal", segments=segments)
        return attended, kernel.backward(q, kv, attended=attended, do=attended.o, mask="causal", segments=segments)

    attended, gradients = jax.eval_shape(both, q, kv, ids)
    assert attended == Attended(q, jax.ShapeDtypeStruct((2, 6, 256), jnp.float32))
    assert gradients == (q, kv)
    small = Segments(jnp.array([[1, 1]]), jnp.array([[0, 0, 1, 1]]))
    (bias, *_) = _beside(jnp.zeros((1, 2, 1, 8), jnp.bfloat16), small, rows=2)
    hidden = np.asarray(bias[0, 0]) != 0
    assert hidden.tolist() == np.kron([[0, 1], [1, 0]], np.ones((2, 2))).astype(bool).tolist()


def two_chunks(kernel, dtype, layout):
    """Output, log-sum-exp and gradients of queries that see a chunk before their own, where they share a document with it."""
    q, kv, do, segments = tokens(keys=128, layout=layout)
    q, kv, do = (x.astype(dtype) for x in (q, kv, do))
    own = Segments(segments.q, segments.q)
    merged = Merged.of(kernel.forward(q, kv, mask="causal", segments=own))
    attended = Attended(*merged.with_chunk(kernel.forward(q, kv, mask="full", segments=segments)))
    seen = Attended(attended.o.astype(dtype), attended.lse)
    parts = [
        kernel.backward(q, kv, attended=seen, do=do, mask=mask, segments=ids)
        for mask, ids in (("causal", own), ("full", segments))
    ]
    return [*attended, *(part for gradients in parts for part in gradients)]


def run_with_halo(kernel, dtype, layout):
    """The same of queries behind the 128 tokens before theirs, with a window, all in one call."""
    q, before, do, _ = tokens(keys=128, layout=layout)
    kv = jnp.concatenate([before, before[:, ::-1]], axis=2)
    ids = jnp.asarray(random_documents(layout, 2, 256))
    q, kv, do = (x.astype(dtype) for x in (q, kv, do))
    segments = Segments(ids[:, 128:], ids)
    attended = kernel.forward(q, kv, mask="causal", segments=segments)
    return [*attended, *kernel.backward(q, kv, attended=attended, do=do, mask="causal", segments=segments)]


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["crossing", "short", "whole"])
@pytest.mark.parametrize(("computed", "window"), [(two_chunks, None), (run_with_halo, 100)])
def test_documents_on_a_gpu_are_those_of_fp32(computed, window, layout):
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU is here")
    with jax.default_matmul_precision("highest"):
        wanted = computed(BlockwiseKernel(window=window), jnp.float32, layout)
    rounded = computed(BlockwiseKernel(window=window), jnp.bfloat16, layout)
    got = computed(CudnnKernel(window), jnp.bfloat16, layout)
    for exact, plain, ours in zip(wanted, rounded, got, strict=True):
        errors = [np.linalg.norm(np.asarray(one, np.float64) - exact) / np.linalg.norm(exact) for one in (ours, plain)]
        assert errors[0] < 2 * errors[1] + 1e-6


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
def test_jax_takes_every_head_that_the_rule_gives_to_cudnn(monkeypatch, capability):
    """The check that jax runs before its own cuDNN attention, on a device of this capability."""
    monkeypatch.setattr(fused, "check_compute_capability", lambda least: capability >= tuple(map(int, least.split("."))))
    monkeypatch.setattr(fused, "is_cuda_compute_capability_equal", lambda _: False)
    largest = cudnn_largest_head_dim(capability)
    q = jax.ShapeDtypeStruct((1, 1024, 8, largest), jnp.bfloat16)
    layout = fused.AttentionLayout.BTNH.value
    fused.check_is_flash_attention(q, q, q, layout, 91800, has_bias=False, is_training=True)
    wider = jax.ShapeDtypeStruct((1, 1024, 8, 264), jnp.bfloat16)
    with pytest.raises(NotImplementedError, match="head dim"):
        fused.check_is_flash_attention(wider, wider, wider, layout, 91800, has_bias=False, is_training=True)
