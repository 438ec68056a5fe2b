"""Collective matmul over the tensor axis: the extra cost of a ring of pieces over the whole products (docs/step.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.compute.kernels import gemm_seconds
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import MATMUL_CODES
from cost_models.rates.published import KERNEL_FLOOR_S, Rates

SUM_PASSES = 3.0
"""Passes over memory per partial sum to which a rank adds: it reads the received sum and the product, and writes a sum."""


@dataclass(frozen=True)
class Ring:
    """How the pieces of a collective matmul travel between ``ranks`` ranks [count].

    Source: docs/step.md, collective matmul.
    """

    ranks: Floats
    two_way: Bools
    one_at_a_time: bool
    """Whether only one permute runs at a time, as in XLA for GPU."""

    def exposed_seconds(self, hop_s: Floats, piece_s: Floats, *, sums: bool) -> Floats:
        """Return the time of hops that outlast the products next to them [s], shape ``[n]``.

        One-way: ``(t - 1) max(h - p, 0)``, with p the product of a piece and h a hop. Two-way on a torus: a round has a hop in
        each direction and two concurrent products, the first round only one: ``max(h - p, 0) + (t // 2 - 1) max(h - 2 p, 0)``.
        Where only one permute runs at a time, the rows of the second direction are exposed, ``(t - 1) // 2`` hops more, and
        sums take one hop after another.
        """
        first = np.maximum(hop_s - piece_s, 0.0)
        rounds = first + np.maximum(np.floor(self.ranks / 2.0) - 1.0, 0.0) * np.maximum(hop_s - 2.0 * piece_s, 0.0)
        back = np.floor((self.ranks - 1.0) / 2.0) * hop_s
        apart = (self.ranks - 1.0) * first if sums else rounds + back
        return np.where(self.two_way, apart if self.one_at_a_time else rounds, (self.ranks - 1.0) * first)

    def gathered_seconds(self, hop_s: Floats) -> Floats:
        """Return the time in which complete pieces reach every rank with no product next to them [s], shape ``[n]``."""
        return self.exposed_seconds(hop_s, np.zeros_like(hop_s), sums=False)


@dataclass(frozen=True)
class RingMatmul:
    """Extra cost of collective matmuls over whole products; columns of shape ``[n]``.

    A product of all rows of a context rank runs as t products of one piece each, with a permute of a piece between them.
    ``hop_s`` is the time of one permute [s]; it moves ``a ts D`` bytes.

    Source: docs/step.md, collective matmul; Wang et al., Overlap Communication with Dependent Computation via Decomposition
    (ASPLOS 2023), for the rings of one and of two directions.
    """

    layout: Layout
    rates: Rates
    hop_s: Floats

    def product_seconds(self, elements: Floats) -> Floats:
        """Return the time of a product of a context rank's rows with ``elements`` of a matrix per device [s], shape ``[n]``."""
        return self._product(self.layout.tokens, elements)

    def _product(self, rows: Floats, elements: Floats) -> Floats:
        traffic = self.layout.activation_bytes * elements
        flop = 2.0 * rows * elements
        return gemm_seconds(flop, traffic, flop_per_s=self.rates.gemm.value, hbm_bytes_per_s=self.rates.hbm.value)

    def extra_seconds(self, elements: Floats, *, sums: bool) -> Floats:
        """Return the extra time of one collective matmul over that of its whole product [s], shape ``[n]``.

        It consists of hops that outlast the concurrent product (``Ring``), weights that each piece reads again, and sums.
        """
        t, piece = self.layout.tensor, self._product(self.layout.stream_tokens, elements)
        ring = Ring(t, self._two_way, one_at_a_time=self._one_at_a_time)
        hops = ring.exposed_seconds(self.hop_s, piece, sums=sums)
        cut = t * piece - self.product_seconds(elements)
        added = SUM_PASSES * (t - 1.0) * self._stream_shard / self.rates.hbm.value if sums else 0.0
        return hops + cut + added + (t - 1.0) * self._floor_s

    @property
    def _one_at_a_time(self) -> bool:
        """Whether only one permute runs at a time, as in XLA for GPU (docs/step.md)."""
        return self.layout.setting.hardware.torus is None

    @property
    def _stream_shard(self) -> Floats:
        return self.layout.activation_bytes * self.layout.stream_tokens * self.layout.setting.model.d_model

    @property
    def _floor_s(self) -> float:
        return KERNEL_FLOOR_S if self.layout.setting.hardware.kind == "gpu" else 0.0

    @cached_property
    def _two_way(self) -> Bools:
        return self.layout.table.collective_matmul == MATMUL_CODES.index("two-way")

    @property
    def attention_elements(self) -> Floats:
        """Elements of query, key and value on this device: ``D (N + 2 K) H / t`` [elements]."""
        return self.layout.setting.model.d_model * (self.layout.query_width + 2.0 * self.layout.kv_width)

    @property
    def _feeds(self) -> bool:
        """Whether the feed-forward has collective matmuls: routed experts gather all rows at once."""
        return self.layout.setting.model.routed is None

    @property
    def up_elements(self) -> Floats:
        """Elements of the feed-forward's up projections on this device: ``2 D F / t`` where they are gated [elements]."""
        model = self.layout.setting.model
        return model.up_matrices * self.down_elements

    @property
    def out_elements(self) -> Floats:
        """Elements of attention's output projection on this device: ``D N H / t`` [elements]."""
        return self.layout.setting.model.d_model * self.layout.query_width

    @property
    def down_elements(self) -> Floats:
        """Elements of the feed-forward's down projection on this device: ``D F / t`` [elements]."""
        return self.layout.setting.model.d_model * self.layout.ff_width

    @cached_property
    def forward(self) -> Floats:
        """Extra time of one layer's forward pass [s], shape ``[n]``."""
        gathers, scatters = (
            self.extra_seconds(self.attention_elements, sums=False),
            self.extra_seconds(self.out_elements, sums=True),
        )
        if self._feeds:
            gathers = gathers + self.extra_seconds(self.up_elements, sums=False)
            scatters = scatters + self.extra_seconds(self.down_elements, sums=True)
        return gathers + scatters + self._reordered

    @cached_property
    def again(self) -> Floats:
        """Extra time of the products that the backward pass repeats [s], shape ``[n]``.

        Rows travel even where a product's result is kept, but then no product hides them. The rows of the feed-forward and the
        cotangent of its result start together: where only one permute runs at a time, one hop waits.
        """
        saves, model = self.layout.saves, self.layout.setting.model
        widths = {"query": self.layout.query_width, "key": self.layout.kv_width, "value": self.layout.kv_width}
        projected = model.d_model * sum((w * ~saves(name) for name, w in widths.items()), start=np.zeros(len(self.hop_s)))
        rows = self.extra_seconds(projected, sums=False)
        if self._feeds:
            fed = self.down_elements * (~saves("up") + (model.up_matrices - 1.0) * ~saves("gate"))
            rows = rows + self.extra_seconds(fed, sums=False)
            rows = rows + (np.where(fed > 0, self.hop_s, 0.0) if self._one_at_a_time else 0.0)
        return rows + np.where(saves("attention_out"), 0.0, self.extra_seconds(self.out_elements, sums=True))

    @cached_property
    def backward(self) -> Floats:
        """Extra time of one layer's backward pass [s], shape ``[n]``.

        Cotangents travel during the products of the weights' gradients, sums during the other products.
        """
        gathers, scatters = (
            self.extra_seconds(self.out_elements, sums=False),
            self.extra_seconds(self.attention_elements, sums=True),
        )
        elements = self.attention_elements + self.out_elements
        if self._feeds:
            gathers = gathers + self.extra_seconds(self.down_elements, sums=False)
            scatters = scatters + self.extra_seconds(self.up_elements, sums=True)
            elements = elements + self.up_elements + self.down_elements
        gradients = 2.0 * self.layout.reduce_bytes * elements * (self.layout.tensor - 1.0) / self.rates.hbm.value
        return gathers + scatters + gradients + self._reordered

    @property
    def _reordered(self) -> Floats:
        """Time to reorder queries, keys, values and attention's output between the pieces' order and the sequence's."""
        width = 2.0 * self.layout.query_width + 2.0 * self.layout.kv_width
        return 2.0 * self.layout.activation_bytes * self.layout.tokens * width / self.rates.hbm.value
