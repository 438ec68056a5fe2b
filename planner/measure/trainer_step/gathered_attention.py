"""A stand-in for MaxText's attention by Transformer Engine over a context axis, which cannot be traced without a GPU.

Keys and values are gathered over the context axis inside ``shard_map``, and jax's cuDNN attention runs on the local queries. It
saves the tensors of Transformer Engine's all-gather (query, key, value, output, log-sum-exp). The masks are not those of a run:
the executable is read for its memory and never trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

BATCH_AXES = ("data", "fsdp", "fsdp_transpose", "expert")
"""Mesh axes of MaxText that split sequences."""


@contextmanager
def in_place() -> Iterator[None]:
    """Put the stand-in in the place of ``cudnn_flash_attention``, and leave the order of the batch's tokens as it is."""
    from maxtext.layers import attention_op
    from maxtext.utils import max_utils

    own, own_order = attention_op.AttentionOp.cudnn_flash_attention, max_utils.reorder_causal_load_balanced
    attention_op.AttentionOp.cudnn_flash_attention = _attention
    max_utils.reorder_causal_load_balanced = lambda batch, *_, **__: batch
    try:
        yield
    finally:
        attention_op.AttentionOp.cudnn_flash_attention = own
        max_utils.reorder_causal_load_balanced = own_order


def _attention(self: Any, query: Any, *keys_and_values: Any, **_: Any) -> Any:
    """Attention of ``query`` [B, T, N, H] over key and value [B, S, K, H], T and S over context.

    MaxText also hands over segment ids, positions and a mode, which the stand-in leaves out.
    """
    import jax
    from jax._src.cudnn.fused_attention_stablehlo import MaskType, dot_product_attention
    from jax.ad_checkpoint import checkpoint_name
    from jax.sharding import PartitionSpec as P

    sizes, axis = self.mesh.shape, self.config.context_sharding
    batch = tuple(name for name in BATCH_AXES if sizes.get(name, 1) > 1) or None
    heads = "tensor" if sizes.get("tensor", 1) > 1 else None
    tokens = axis if sizes[axis] > 1 else None
    spec, lse_spec = P(batch, tokens, heads, None), P(batch, heads, tokens)

    @partial(jax.shard_map, mesh=self.mesh, in_specs=(spec,) * 3, out_specs=(spec, lse_spec), check_vma=False)
    def local(q: Any, k: Any, v: Any) -> Any:
        if tokens is not None:
            k, v = (jax.lax.all_gather(one, axis, axis=1, tiled=True) for one in (k, v))
        mask = MaskType.NO_MASK
        return dot_product_attention(q, k, v, mask_type=mask, scale=1.0, qkv_layout="BTNH", return_residual=True)

    output, _lse = local(query, *keys_and_values[:2])
    return checkpoint_name(output, "context")
