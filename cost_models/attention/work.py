"""Attention of one layer on the slowest rank, by scheme: kernels, the split of the causal half, exposed ring hops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.attention.unfused import unfused_seconds
from cost_models.compute.host_time import shares_cores
from cost_models.compute.kernels import (
    BACKWARD_ATTENTION_OF_FORWARD,
    BIAS_BYTES,
    SCORE_BYTES,
    attention_flop,
    attention_seconds,
    score_seconds,
)
from cost_models.inputs.layout import Floats, Layout
from cost_models.masks.documents import document_keys
from cost_models.masks.tiles import causal_block_keys, chunk_tiles, spill_ratio
from cost_models.masks.window_documents import window_document_keys
from cost_models.masks.windows import Halo
from cost_models.rates.published import Rates
from cost_models.schemes.ring import contiguous_ring
from lcplan.strategy import ATTENTION_BLOCK


@dataclass(frozen=True)
class RingSteps:
    """Attention of one layer and microbatch as steps of one pass; columns of shape ``[n]``.

    ``first_s`` is the causal step on a rank's own chunk [s], ``later_s`` each of ``later`` further steps [s]. The pass takes
    ``first_s + later * later_s``.

    Source: docs/step.md, schemes; Liu et al., Ring Attention (arXiv:2310.01889).
    """

    first_s: Floats
    later_s: Floats
    later: Floats

    @property
    def total_s(self) -> Floats:
        """Time of all kernels of the pass [s], shape ``[n]``."""
        return self.first_s + self.later * self.later_s


def causal_imbalance(context: Floats) -> Floats:
    """Return the work of the slowest rank of a contiguous causal ring over the mean of all ranks.

    Rank ``c - 1`` computes its own half square and ``c - 1`` full squares: ``(1/2 + c - 1) / (c / 2) = (2c - 1) / c``.

    Parameters
    ----------
    context : ndarray
        c, ranks of the ring, at least 1.

    Returns
    -------
    ndarray
        Ratio [no unit], from 1 to 2.

    Notes
    -----
    Source: Brandon et al., Striped Attention (arXiv:2311.09431), section 3: a contiguous causal ring takes up to twice
    the balanced time.

    Examples
    --------
    >>> float(causal_imbalance(np.array(4.0)))
    1.75
    """
    return (2.0 * context - 1.0) / context


def ring_steps(layout: Layout, rates: Rates, *, backward: bool) -> RingSteps:
    """Return the attention kernels of one pass over one layer, on the slowest rank.

    ``ring``: a causal step of ``l^2 / 2``, then ``c - 1`` full steps of ``l^2`` (``l = T / c``). ``ring-zigzag`` and
    ``all-gather``: the same first step, then ``c - 1`` steps of half the area on every rank. Where ``e`` neighbours exchange
    heads, each has the tokens of all of them and ``1 / e`` of the heads: ``e = c`` has only the first step, a smaller group is
    a zigzag ring of ``c / e``. With two directions, each has half of the heads, one after the other. Other trainers' programs
    may have a contiguous ring between groups that exchange heads, or one call on all gathered keys.

    Blockwise attention computes blocks on the diagonal in full. Devices of a CPU share its cores: ranks of a contiguous ring
    that finish early free cores for the slowest, so its full blocks count half.

    A layer with a sliding window is one call on a rank's chunk with its halo (``cost_models.masks.windows``); its time is
    proportional to the tiles inside the window. In packed sequences blockwise attention also skips tiles outside the document
    (``cost_models.masks.window_documents``); other kernels do not.

    In packed sequences without a window, every kernel skips chunks that share no document with a rank's chunk, and blockwise
    attention also skips blocks. Ignores the time for which ranks of a ring then wait for their neighbours.

    Parameters
    ----------
    layout : Layout
        Candidates.
    rates : Rates
        Rates that the device achieves.
    backward : bool
        The backward pass: 2.5 times the work at the backward kernel's rate.

    Returns
    -------
    RingSteps
        Times [s] and steps [count].

    Notes
    -----
    Source: docs/step.md, schemes; rates in data/device_rates.json.
    """
    kernel = _Kernel(layout, rates, backward)
    if layout.window is not None and layout.setting.kernel != "unfused":
        return _windowed(layout, kernel)
    exchange = layout.exchange
    tokens, length, width = layout.tokens * exchange, layout.local_length * exchange, layout.query_width / exchange
    documents = layout.setting.workload.document_len is not None
    if documents and layout.setting.kernel == "blockwise":
        return _in_documents(layout, kernel)
    half = kernel.seconds(tokens, length / 2, width=width)
    first = half * _masked_ratio(layout, length)
    if layout.setting.kernel == "blockwise":
        first = kernel.seconds(tokens, causal_block_keys(length, chunk_tiles(layout)[1]), width=width)
    whole = kernel.seconds(tokens, length, width=width) * (0.5 if shares_cores(layout.setting.hardware) else 1.0)
    program = layout.setting.program
    contiguous = contiguous_ring(layout) | layout.scheme_has(lambda facts: facts.gathers and not facts.balanced)
    if layout.setting.kernel == "unfused":
        whole = first  # masked scores are computed too: every step takes as long as the step on the own chunk
    later = np.where(contiguous, whole, first if layout.setting.kernel != "blockwise" else half)
    if documents:
        later = later * _visited(layout, np.where(contiguous, length, length / 2))
    steps = RingSteps(first, later, layout.chunks - 1.0)
    return steps if program.gathered_calls == "each-chunk" else _gathered(layout, steps, kernel=kernel)


def _windowed(layout: Layout, kernel: _Kernel) -> RingSteps:
    """Return one call with the halo; the queries are padded to the keys' length where the kernel needs equal lengths."""
    halo, exchange = Halo(layout), layout.exchange
    tokens, width = layout.tokens * exchange * halo.padded, layout.query_width / exchange
    zero, keys = np.zeros(len(layout.table)), halo.keys
    if layout.setting.kernel == "blockwise" and layout.setting.workload.document_len is not None:
        keys = window_document_keys(layout, mean=shares_cores(layout.setting.hardware))
    return RingSteps(kernel.seconds(tokens, keys, width=width), zero, zero)


def _in_documents(layout: Layout, kernel: _Kernel) -> RingSteps:
    """Return the steps inside documents; the keys of all other chunks are priced as one step, since few share a document."""
    own, others = document_keys(layout, mean=shares_cores(layout.setting.hardware))
    tokens, width, later = layout.tokens * layout.exchange, layout.query_width / layout.exchange, layout.chunks - 1.0
    rest = np.where(others > 0, kernel.seconds(tokens, np.maximum(others, 1.0), width=width), 0.0)
    return RingSteps(kernel.seconds(tokens, own, width=width), rest / np.maximum(later, 1.0), later)


def _visited(layout: Layout, keys: Floats) -> Floats:
    """Return the share of the later steps, of ``keys`` each, whose chunks share a document with the slowest rank's chunk."""
    _, others = document_keys(layout, mean=False)
    share: Floats = others / np.maximum(keys * (layout.chunks - 1.0), 1.0)
    return share


def _gathered(layout: Layout, steps: RingSteps, *, kernel: _Kernel) -> RingSteps:
    """Return all-gather as one call on all keys, without a merge: a balanced rank's mean query attends to half of them."""
    gathers = layout.gathers
    length, contiguous = layout.local_length, layout.scheme_has(lambda facts: not facts.balanced)
    keys = length * np.where(contiguous, layout.context - 0.5, layout.context / 2)
    whole = kernel.seconds(layout.tokens, keys, width=layout.query_width)
    return RingSteps(np.where(gathers, whole, steps.first_s), steps.later_s, np.where(gathers, 0.0, steps.later))


def merge_bytes(layout: Layout, steps: RingSteps) -> Floats:
    """Return the traffic of merging the result of each later step of one pass into the running sums.

    ``6 a s U N H`` for s later steps: six passes of ``a`` bytes over the queries' features, where a read or a write of fp32
    sums counts as two.

    Parameters
    ----------
    layout : Layout
        Candidates.
    steps : RingSteps
        Steps of the pass.

    Returns
    -------
    ndarray, shape [n]
        Traffic [bytes per layer and microbatch].

    Notes
    -----
    Source: counted from strategies' merge, which reads and writes fp32 output and reads a step's output; ignores log-sum-exps.
    """
    return layout.activation_bytes * 6.0 * steps.later * layout.tokens * layout.query_width


def _masked_ratio(layout: Layout, length: Floats) -> Floats | float:
    """Return the cost of a causal block over half of a full block, for a kernel that masks tile by tile.

    Tiles on the diagonal are computed in full, half a tile per row too much, and masked at a share of a full block's cost:
    ``1 + (b / l + 2 m)``. The step's own splash kernel was measured with tiles of 512; the ratio is relative to these.
    """
    tile = layout.setting.program.attention_tile
    if tile is None and layout.setting.kernel == "splash" and layout.setting.program.attention != "tokamax":
        return (1.0 + chunk_tiles(layout)[0] / length) / (1.0 + np.minimum(ATTENTION_BLOCK, length) / length)
    if tile is None:
        return 1.0
    return 1.0 + tile / length + 2.0 * layout.setting.constants.tile_mask_share


@dataclass(frozen=True)
class _Kernel:
    """The chunk kernel of one pass."""

    layout: Layout
    rates: Rates
    backward: bool

    def seconds(self, tokens: Floats, keys: Floats, *, width: Floats) -> Floats:
        """Return the time of ``tokens`` queries of ``width`` features with ``keys`` keys each [s]."""
        rates = self.rates
        if self.layout.setting.kernel == "unfused":
            return self._unfused(tokens * 2.0 * keys * width)
        rate = rates.attention_backward if self.backward else rates.attention_forward
        if shares_cores(self.layout.setting.hardware) and rates.attention_kernel is None:
            return self._on_host(tokens, keys, width=width, flop_per_s=rate.value)
        half = rates.backward_half_tokens if self.backward else rates.forward_half_tokens
        work = attention_flop(tokens, keys, width=width) * (BACKWARD_ATTENTION_OF_FORWARD if self.backward else 1.0)
        head_dim = float(self.layout.setting.model.head_dim)
        achieved = rate.value * rates.head_ratio(head_dim, backward=self.backward)
        seconds = attention_seconds(work, keys, flop_per_s=achieved, half_tokens=half)
        return np.maximum(seconds, self._moved(tokens, keys, width=width)) if self._score_bytes else seconds

    def _moved(self, tokens: Floats, keys: Floats, *, width: Floats) -> Floats:
        """Return the time of the scores' traffic."""
        heads, hbm = width / self.layout.setting.model.head_dim, self.rates.hbm.value
        return score_seconds(tokens, keys, heads=heads, score_bytes=self._score_bytes, hbm_bytes_per_s=hbm)

    def _on_host(self, tokens: Floats, keys: Floats, *, width: Floats, flop_per_s: float) -> Floats:
        """Return the time on a CPU, where products and scores run in sequence and tiles beyond the cache spill to memory."""
        products = BACKWARD_ATTENTION_OF_FORWARD if self.backward else 1.0
        seconds = products * attention_flop(tokens, keys, width=width) / flop_per_s + self._moved(tokens, keys, width=width)
        heads = self.layout.sequences * width / self.layout.setting.model.head_dim
        query_tile, key_tile = chunk_tiles(self.layout)
        return seconds * spill_ratio(4.0 * heads * query_tile * key_tile)

    @property
    def _score_bytes(self) -> float:
        """Traffic of one score in blocks that are not fused, or of one score's bias, in which cuDNN takes documents."""
        kernel = self.layout.setting.kernel
        if kernel == "cudnn" and self.layout.setting.workload.document_len is not None:
            return BIAS_BYTES
        if kernel != "blockwise" or self.rates.attention_kernel == "blockwise":
            return 0.0
        return SCORE_BYTES["backward" if self.backward else "forward"]

    def _unfused(self, score_features: Floats) -> Floats:
        """Return the time where scores are kept or, in the backward pass of selective recomputation, recomputed."""
        head_dim = float(self.layout.setting.model.head_dim)
        passes = ["backward" if self.backward else "forward"]
        if self.backward and self.layout.setting.program.recompute_scores:
            passes.append("again")
        rates = {"flop_per_s": self.rates.gemm.value, "hbm_bytes_per_s": self.rates.hbm.value}
        each = [unfused_seconds(score_features / head_dim, head_dim, which=name, **rates) for name in passes]
        return sum(each, start=np.zeros_like(score_features))


def exposed_hop_seconds(step_s: Floats, hop_s: Floats) -> Floats:
    """Return the time that one ring hop adds to the concurrent kernel: ``max(compute, transfer) - compute``.

    Parameters
    ----------
    step_s : ndarray
        Kernel on the current chunk [s].
    hop_s : ndarray
        Transfer of the next chunk [s].

    Returns
    -------
    ndarray
        Exposed time [s per hop], at least 0.

    Notes
    -----
    Source: Liu et al., Ring Attention (arXiv:2310.01889), section 3: hidden while the block is long enough.

    Examples
    --------
    >>> float(exposed_hop_seconds(np.array(2.0), np.array(3.0)))
    1.0
    """
    return np.maximum(hop_s - step_s, 0.0)
