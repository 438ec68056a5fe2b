"""Time of one part: a product, a feed-forward, an attention call or a collective, forward, as its program is written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cost_models.collectives.collective_matmul import SUM_PASSES, Ring
from cost_models.collectives.network import Network
from cost_models.compute.kernels import gemm_seconds
from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats, Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import KERNEL_FLOOR_S, Rates, rates_for
from cost_models.time.attention_pass import attention_pass_seconds
from lcplan.parts import Move, Part, Product, moves
from lcplan.parts.placed import ranks
from lcplan.spec.collective import Op
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import AxisName, Strategy

BYTES = {"bf16": 2.0, "fp32": 4.0}
"""Bytes per element."""


def part_seconds(part: Part, strategy: Strategy, hardware: HardwareSpec) -> dict[str, float]:
    """Return the time of a part by item: products, attention, exposed communication.

    Parameters
    ----------
    part : Part
        The part.
    strategy : Strategy
        Mesh, scheme and collective matmul; the sharding mode is not read, since it does not predict a compiler's own placement.
    hardware : HardwareSpec
        Machine.

    Returns
    -------
    dict
        Time [s per call] by item.

    Notes
    -----
    Ignores GELU, launches, and overlap other than that of collective matmuls. Source: docs/step/parts.md.
    """
    setting = Setting(part.model, hardware, part.workload, hardware.usable_bytes)
    table = StrategyTable.from_strategies([strategy])
    if part.kind == "attention":
        return {"attention": float(attention_pass_seconds(setting, table)[0][0])}
    layout = Layout(setting, table)
    priced = _Priced(part, strategy, layout, rates_for(setting), Network.of(layout, rates_for(setting)))
    if part.kind == "collective":
        assert part.op is not None
        assert part.axis is not None
        elements = float(part.sizes["B"] * part.sizes["D"])
        return {"communication": float(priced.call(part.op, part.axis, elements)[0])}
    return priced.products()


@dataclass(frozen=True)
class _Priced:
    """Prices of one part; arrays of one row."""

    part: Part
    strategy: Strategy
    layout: Layout
    rates: Rates
    network: Network

    def call(self, op: Op, axis: AxisName, elements: float) -> Floats:
        """Return the time of one call over ``axis`` on an operand of ``elements`` [s]."""
        size = np.array([BYTES[self.part.precision] * elements])
        return self.network.seconds(Term(op, (axis,), "part", size, np.ones(1), "exposed"))

    def products(self) -> dict[str, float]:
        total = {"products": 0.0, "communication": 0.0}
        for product, sizes in self.part.products():
            work, moved = self._product(product, sizes)
            total["products"] += float(work[0])
            total["communication"] += float(moved[0])
        return total

    def _product(self, product: Product, sizes: Mapping[str, int]) -> tuple[Floats, Floats]:
        """Return the time of the whole product on one device, and the exposed time of its collectives [s]."""
        found = moves(product, self.strategy.mesh)
        rows, inner, columns = self._multiplied(product, sizes)
        elements = {"rows": rows * inner, "inner": rows * inner, "weight": inner * columns, "result": rows * columns}
        ringed = self.strategy.collective_matmul != "off" and self.strategy.sharding_mode == "manual"
        travels = next((one for one in found if ringed and one.axis == "tensor" and one.moved != "weight"), None)
        exposed = sum((self.call(one.op, one.axis, elements[one.moved]) for one in found if one is not travels), np.zeros(1))
        if travels is not None:
            exposed = exposed + self._ring(travels, rows=rows, inner=inner, columns=columns)
        return self._gemm(rows, inner, columns), exposed

    def _multiplied(self, product: Product, sizes: Mapping[str, int]) -> tuple[float, float, float]:
        """Return the dims of the product that one device computes, after gathers and before sums [elements]."""
        left, right, result = product
        inner = tuple(axis for axis in left.over("D") if axis in right.over("D"))
        rows = tuple(axis for axis in left.over("B") if axis in result.over("B"))
        mesh = self.strategy.mesh
        return sizes["B"] / ranks(rows, mesh), sizes["D"] / ranks(inner, mesh), sizes["F"] / ranks(right.over("F"), mesh)

    def _gemm(self, rows: float, inner: float, columns: float, *, extra_bytes: float = 0.0) -> Floats:
        traffic = BYTES[self.part.precision] * (rows * inner + inner * columns + rows * columns) + extra_bytes
        return gemm_seconds(
            np.array([2.0 * rows * inner * columns]),
            np.array([traffic]),
            flop_per_s=self.rates.gemm.value,
            hbm_bytes_per_s=self.rates.hbm.value,
        )

    @property
    def _on_chip(self) -> bool:
        """Whether sums stay in a TPU's vector memory, as read in parts compiled for v5e (libtpu 0.0.41)."""
        return self.layout.setting.hardware.kind == "tpu"

    def _ring(self, move: Move, *, rows: float, inner: float, columns: float) -> Floats:
        """Return the extra time of a collective matmul over its whole product [s].

        An all-reduce cuts the columns in two. The sums of the first half travel during its products, its complete pieces
        and the sums of the second half during the other products. Nothing hides the pieces of the second half.
        """
        t = float(self.strategy.mesh.tensor)
        a_dim = {"rows": (rows / t, inner, columns), "inner": (rows, inner / t, columns), "weight": (rows, inner, columns)}
        cut = (rows, inner, columns / t) if move.dim == "F" else (rows / t, inner, columns)
        shape = a_dim.get(move.moved, cut)
        whole = self._gemm(rows, inner, columns)
        accumulated = 2.0 * BYTES["fp32"] * rows * columns if move.moved == "inner" and not self._on_chip else 0.0
        piece = self._gemm(*shape, extra_bytes=accumulated)
        sent = rows * columns if move.moved == "result" else rows * inner
        hop = self.call("collective-permute", move.axis, sent / t)
        gpu = self.layout.setting.hardware.kind == "gpu"
        two_way = np.array([self.strategy.collective_matmul == "two-way"])
        ring = Ring(np.array([t]), two_way, one_at_a_time=self.layout.setting.hardware.torus is None)
        exposed = ring.exposed_seconds(hop, piece, sums=move.moved == "result")
        if move.op == "all-reduce":
            half = self.call("collective-permute", move.axis, sent / t / 2.0)
            exposed = ring.exposed_seconds(half, piece / 2.0, sums=True)
            exposed = exposed + ring.exposed_seconds(2.0 * half, piece / 2.0, sums=True) + ring.gathered_seconds(half)
        passes = SUM_PASSES if move.moved == "result" else 0.0
        sums = passes * (t - 1.0) * BYTES[self.part.precision] * sent / t / self.rates.hbm.value
        return exposed + t * piece - whole + sums + (t - 1.0) * (KERNEL_FLOOR_S if gpu else 0.0)
