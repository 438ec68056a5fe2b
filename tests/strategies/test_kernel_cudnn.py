"""jax's private cuDNN primitives are where kernels/cudnn.py expects them. On failure: read the new jax, mend that one file."""

import inspect

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as fused

from strategies.kernels.cudnn import CudnnKernel
from strategies.kernels.interface import Attended

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
