"""Reduce-scatters as libtpu compiles them: no other work overlaps them, and over some whole slices they become all-reduces.

Where a group is a whole slice, libtpu's all-reduce uses all dims of the torus at once, but its reduce-scatters do not. libtpu
then compiles an all-reduce, and each device slices its part out of the sum. The operand moves twice, in every direction. In
both cases the executable has no start and done pair for the reduction, as it has for gathers and permutes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.program import STEP
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.torus import sub_torus

SHORTEST_SQUARE = 4
"""Chips along an edge of the smallest two-dimensional slice on which this happens."""


def sums_everywhere(block: tuple[int, ...]) -> bool:
    """Return whether a reduce-scatter over all chips of a slice is compiled as an all-reduce.

    It is for any block with three dims, and for square two-dimensional blocks from 4 x 4 on.

    Parameters
    ----------
    block : tuple of int
        Chips of the slice along each dim [count], with one device per chip.

    Returns
    -------
    bool
        True where libtpu all-reduces [no unit].

    Notes
    -----
    Source: compiled reduce-scatters of 4096 x 4096 in fp32, libtpu 0.0.41. All-reduces: v4 and v5p of 2x2x2, v5p of 2x2x4,
    2x4x4, 4x4x4 and 4x4x8; v5e of 4x4, 8x8 and 16x16, v6e of 4x4. Reduce-scatters: v5p of 2x2x1, v5e of 2x2, 2x4, 4x8 and
    8x16, v6e of 4x8; 7x, which has two devices per chip, of 2x2x1 and 2x2x2; and every group that is a part of its slice.

    Examples
    --------
    >>> sums_everywhere((2, 2, 2)), sums_everywhere((2, 2, 1)), sums_everywhere((4, 4)), sums_everywhere((4, 8))
    (True, False, True, False)
    """
    edges = [edge for edge in block if edge > 1]
    return len(edges) == 3 or (len(edges) == 2 and edges[0] == edges[1] >= SHORTEST_SQUARE)


def as_libtpu_reduces(layout: Layout, terms: list[Term]) -> list[Term]:
    """Return ``terms`` with reduce-scatters as libtpu compiles them by default; unchanged on other machines.

    Parameters
    ----------
    layout : Layout
        Candidates.
    terms : list of Term
        Bytes [bytes per call], calls [per step].

    Returns
    -------
    list of Term
        A reduce-scatter that is an all-reduce in some rows becomes two terms, each with the calls [per step] of its rows.

    Notes
    -----
    A job on several slices is assumed to reduce in each as on a part of one, without an all-reduce. Other trainers' programs
    are unchanged: their published runs set other flags (MaxText's for v6e offload reductions to SparseCores).
    Source: ``sums_everywhere``; the schedules of compiled steps, v5e and v5p, libtpu 0.0.41.
    """
    setting = layout.setting
    if setting.hardware.torus is None or setting.program != STEP:
        return terms
    slices = _whole_slices(layout, setting.hardware)
    found = []
    for term in terms:
        if term.op != "reduce-scatter":
            found.append(term)
            continue
        summed = slices & (layout.members(term.axes) == layout.table.devices)
        calls = term.calls * _share(layout) if term.purpose == "tables" else term.calls
        found.append(replace(term, schedule="exposed", calls=calls * ~summed))
        if summed.any():
            found.append(replace(term, op="all-reduce", schedule="exposed", calls=calls * summed))
    return found


def reduced_everywhere(layout: Layout) -> Bools:
    """Return whether a reduce-scatter over all axes of the state is compiled as an all-reduce.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray of bool, shape [n]
        True where libtpu all-reduces, so that each device has the whole sum [no unit].

    Notes
    -----
    Source: ``sums_everywhere``.
    """
    hardware = layout.setting.hardware
    if hardware.torus is None:
        return np.zeros(len(layout.table), dtype=np.bool_)
    return _whole_slices(layout, hardware) & (layout.weight_shards == layout.table.devices)


def _share(layout: Layout) -> Floats | float:
    """Return the share of the tables' reductions that remain: an untied embedding is summed over microbatches first."""
    return 1.0 if layout.setting.model.tied_embeddings else (layout.microbatches + 1.0) / (2.0 * layout.microbatches)


def _whole_slices(layout: Layout, hardware: HardwareSpec) -> Bools:
    """Return the rows whose devices are a slice, or a block of one, for which ``sums_everywhere`` is true."""
    assert hardware.torus is not None
    beyond = hardware.domain_size + 1
    devices = np.minimum(layout.table.devices, beyond)
    summed = np.zeros(beyond + 1, dtype=np.bool_)
    if hardware.devices_per_chip == 1:
        counts = np.flatnonzero(np.bincount(devices)[:beyond])
        summed[counts] = [_is_summed(hardware.torus, int(count)) for count in counts]
    return summed[devices]


@cache
def _is_summed(torus: tuple[int, ...], devices: int) -> bool:
    block = sub_torus(devices, torus)
    return block is not None and sums_everywhere(block)
