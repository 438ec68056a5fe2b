"""Splash attention on TPU. The only file that touches the private backward pass of jax's splash kernels.

jax's public function differentiates one call at a time and drops the log-sum-exp's gradient; a ring needs each chunk's
backward pass under the global output and log-sum-exp, which the rule underneath takes as residuals. A test pins it, so that
a jax that moves it fails loudly.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import gcd, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jaxtyping import Array, Bool, Float

from lcplan.strategy import ATTENTION_BLOCK
from strategies.kernels.interface import Attended, Gradients, Mask, Segments


@lru_cache(maxsize=64)
def _sizes(queries: int, keys: int, block: int) -> Any:
    block_q, block_kv = gcd(queries, block), gcd(keys, block)
    return splash.BlockSizes(
        block_q=block_q,
        block_kv=block_kv,
        block_kv_compute=block_kv,
        block_q_dkv=block_q,
        block_kv_dkv=block_kv,
        block_kv_dkv_compute=block_kv,
        block_q_dq=block_q,
        block_kv_dq=block_kv,
    )


class _CausalMask(masks.CausalMask):
    """jax's causal mask, which answers for a tile on one side of the diagonal with one element.

    Only whether any or all of such a tile is seen is ever asked, and jax asks it of every tile, twice a kernel: over whole
    tiles that is T x T comparisons on the host, 200 s at 131072 tokens.
    """

    def __getitem__(self, tile: tuple[slice, slice]) -> Bool[np.ndarray, "T S"]:
        queries, keys = tile
        if keys.stop - 1 <= queries.start:
            return np.ones((1, 1), bool)
        if keys.start > queries.stop - 1:
            return np.zeros((1, 1), bool)
        return super().__getitem__(tile)


class _WindowMask(masks.LocalMask):
    """jax's mask of a window, the queries aligned with the last keys, which answers as ``_CausalMask`` does."""

    def __init__(self, shape: tuple[int, int], window: int) -> None:
        super().__init__(shape, (window - 1, 0), shape[1] - shape[0])

    def __getitem__(self, tile: tuple[slice, slice]) -> Bool[np.ndarray, "T S"]:
        queries, keys = tile
        least, most = (at + self.offset - key for at, key in ((queries.start, keys.stop - 1), (queries.stop - 1, keys.start)))
        if least >= 0 and most <= self.window_size[0]:
            return np.ones((1, 1), bool)
        if most < 0 or least > self.window_size[0]:
            return np.zeros((1, 1), bool)
        return super().__getitem__(tile)


def _mask(shape: tuple[int, int], mask: Mask, *, window: int | None) -> Any:
    if mask == "full":
        return masks.FullMask(shape)
    return _CausalMask(shape) if window is None else _WindowMask(shape, window)


def _kernel(
    q: Float[Array, "B T N H"],
    kv: Float[Array, "2 B S K H"],
    *,
    mask: Mask,
    block: int,
    window: int | None,
    interpret: bool,
) -> Any:
    """Masks become a table of tiles, so a full, a causal and a windowed chunk are the same kernel with another table."""
    shape = q.shape[1], kv.shape[2]
    one = _mask(shape, mask, window=window)
    return splash.make_splash_mha(
        masks.MultiHeadMask([one] * q.shape[2]),
        block_sizes=_sizes(*shape, block),
        head_shards=1,
        q_seq_shards=1,
        save_residuals=True,
        interpret=interpret,
    )


def _heads_first(x: Float[Array, "B T N H"]) -> Float[Array, "B N T H"]:
    return jnp.swapaxes(x, 1, 2)


def _scaled(q: Float[Array, "B T N H"]) -> Float[Array, "B N T H"]:
    """The kernels do not scale scores."""
    return _heads_first(q * jnp.asarray(1 / sqrt(q.shape[-1]), q.dtype))


def _ids(segments: Segments | None) -> Any:
    return None if segments is None else splash.SegmentIds(*segments)


class SplashKernel:
    """Mosaic kernels: head dims and lengths in multiples of 128; tiles of up to ``block`` queries and keys, which is one too.

    Documents mask scores; tiles that no document of the queries reaches are computed all the same.

    ``interpret`` runs them on any device, slowly, for tests.
    """

    def __init__(self, block: int = ATTENTION_BLOCK, *, interpret: bool = False, window: int | None = None) -> None:
        self._block = block
        self._interpret = interpret
        self._window = window

    def forward(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B S K H"], *, mask: Mask, segments: Segments | None = None
    ) -> Attended:
        """Return output and log-sum-exp over this chunk only, one sequence at a time."""
        kernel = _kernel(q, kv, mask=mask, block=self._block, window=self._window, interpret=self._interpret)
        o, (lse,) = jax.vmap(kernel)(_scaled(q), _heads_first(kv[0]), _heads_first(kv[1]), _ids(segments))
        return Attended(_heads_first(o), lse)

    def backward(
        self,
        q: Float[Array, "B T N H"],
        kv: Float[Array, "2 B S K H"],
        *,
        attended: Attended,
        do: Float[Array, "B T N H"],
        mask: Mask,
        segments: Segments | None = None,
    ) -> Gradients:
        """Two kernels: gradients of queries, and of keys and values summed over their query heads."""
        kernel = _kernel(q, kv, mask=mask, block=self._block, window=self._window, interpret=self._interpret)
        rule = partial(splash._splash_attention_bwd, **kernel.kwargs)

        def one(q: Array, kv: tuple[Array, Array], ids: Any, attended: Attended, do: Array) -> tuple[Array, Array, Array]:
            residuals = (q, *kv, ids, None, *attended, kernel.dq_mask_info, kernel.dkv_mask_info)
            _, _, _, dq, dk, dv, _, _ = rule(res=residuals, do=do)
            return dq, dk, dv

        heads = _heads_first(kv[0]), _heads_first(kv[1])
        whole = Attended(_heads_first(attended.o), attended.lse)
        dq, dk, dv = jax.vmap(one)(_scaled(q), heads, _ids(segments), whole, _heads_first(do))
        dq = dq * jnp.asarray(1 / sqrt(q.shape[-1]), dq.dtype)
        return Gradients(_heads_first(dq), jnp.stack([_heads_first(dk), _heads_first(dv)]))
