"""max-seq: the longest sequence at which some strategy fits, over whole tiles of each mesh."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import AXES
from planner.request.request import SearchRequest
from planner.request.request_changes import TILE_TOKENS, Ask, Piece, length_unit
from planner.rules import MESH_RULES
from planner.rules.interface import Rule
from planner.space.analysis import knob_rules_of, setting_of
from planner.space.enumerate import Knobs, expand
from planner.space.meshes import keeping
from planner.space.reject import screen
from planner.space.shapes import Ints
from planner.what_if.last_fit import last_fit
from planner.workloads.pricing import need_bytes

ANY_LENGTH = ("sequence", "loss-chunk")
"""Rules that one length breaks and the next may not: waived while a bound is looked for, held at every length tried."""


def longest_sequence(ask: Ask) -> int | None:
    """The longest sequence that fits [tokens]: of every strategy, at lengths that are whole tiles of its mesh.

    A length counts for a strategy where it is a multiple of 128 x context (and each tile splits over tensor). The set of
    strategies and lengths grows with the devices and does not depend on the budget, so that the answer never falls with
    more of either.
    """
    top = next(ask.pieces(ask.longest))
    found = _longest_in(ask, top)
    if found is not None or top.low == 0:
        return found
    bound = _bound(ask, top.low)
    pieces = ask.pieces(bound) if bound is not None else iter(())
    return next((length for length in (_longest_in(ask, piece) for piece in pieces) if length is not None), None)


def _bound(ask: Ask, high: int) -> int | None:
    """A length up to ``high`` above which nothing fits, whatever the batch: one sequence per rank, no accumulation."""
    filters = ask.request.filters.model_copy(update={"microbatches": ask.request.filters.microbatches or (1,)})
    whole = Piece(1, 0, high)
    ends = []
    for ranks, meshes in _by_ranks(ask):
        request = ask.at(global_batch=ranks).model_copy(update={"filters": filters})
        ends += [end for end, _ in _ends(ask, request, piece=whole, meshes=meshes, waived=("microbatches", *ANY_LENGTH))]
    return max(ends, default=None)


def _by_ranks(ask: Ask) -> Iterator[tuple[int, Ints]]:
    rules = _but(MESH_RULES, ("batch", *ANY_LENGTH))
    meshes = keeping(ask.request, setting_of(ask.request), rules, most_devices=ask.most_devices).meshes
    ranks = _ranks(meshes)
    for count in np.unique(ranks):
        yield int(count), meshes[ranks == count]


def _ranks(meshes: Ints) -> Ints:
    """Number of ranks over which each mesh splits the batch, shape [meshes]."""
    return np.asarray(meshes[:, [AXES.index(axis) for axis in ("data", "fsdp", "expert")]].prod(axis=1))


def _longest_in(ask: Ask, piece: Piece) -> int | None:
    """The longest of one piece. Ends come from the smallest loss chunk; the real chunks then decide, from the top."""
    request = ask.at(global_batch=piece.global_batch)
    best = piece.low
    rules = _but(MESH_RULES, ANY_LENGTH)
    meshes = keeping(request, setting_of(request), rules, most_devices=ask.most_devices).meshes
    for end, group in sorted(_ends(ask, request, piece=piece, meshes=meshes, waived=ANY_LENGTH), key=lambda found: -found[0]):
        unit = length_unit(int(group[0, 2]), int(group[0, 3]))
        for length in range(end, best, -unit):
            if _fits(ask, ask.at(seq_len=length, global_batch=piece.global_batch), meshes=group):
                best = length
                break
    return best if best > piece.low else None


def _ends(
    ask: Ask, request: SearchRequest, *, piece: Piece, meshes: Ints, waived: tuple[str, ...]
) -> Iterator[tuple[int, Ints]]:
    """Pair each group of meshes of one unit with the longest length that fits with the smallest loss chunk.

    The meshes keep every rule except the rules in ``waived``.
    """
    for unit, group in _by_unit(request, meshes, waived=waived):
        table = _table(ask, request, meshes=group, unit=unit, waived=waived)

        def need(rows: StrategyTable, tiles: int, unit: int = unit) -> np.ndarray:
            setting = setting_of(ask.at(seq_len=tiles * unit, global_batch=request.workload.global_batch))
            return need_bytes(setting, rows)

        low, high = piece.low // unit + 1, piece.high // unit
        tiles = last_fit(table, need, budget_bytes=request.budget_bytes, low=low, high=high)
        if tiles is not None:
            yield tiles * unit, group


def _by_unit(request: SearchRequest, meshes: Ints, *, waived: tuple[str, ...]) -> Iterator[tuple[int, Ints]]:
    wanted = request.filters.microbatches
    if wanted and "microbatches" not in waived:  # before their knobs are multiplied out, since most batches leave none
        meshes = meshes[np.any([request.workload.global_batch % (_ranks(meshes) * count) == 0 for count in wanted], axis=0)]
    units = np.array([length_unit(int(context), int(tensor)) for context, tensor in meshes[:, 2:4]], dtype=np.int64)
    for unit in np.unique(units):
        yield int(unit), meshes[units == unit]


def _table(ask: Ask, request: SearchRequest, *, meshes: Ints, unit: int, waived: tuple[str, ...]) -> StrategyTable:
    """The group's strategies at one unit, with a loss chunk as small as any length of the group can have."""
    filters = request.filters
    if not filters.loss_chunk_tokens:
        filters = filters.model_copy(update={"loss_chunk_tokens": (TILE_TOKENS,)})
    workload = request.workload.resized(seq_len=unit)
    at_unit = request.model_copy(update={"workload": workload, "filters": filters})
    table = expand(at_unit, Knobs.of(filters, ask.backends, kind=request.hardware.kind), meshes)
    return table.take(screen(setting_of(at_unit), _but(knob_rules_of(at_unit), waived), table) < 0)


def _fits(ask: Ask, request: SearchRequest, *, meshes: Ints) -> bool:
    setting = setting_of(request)
    table = expand(request, Knobs.of(request.filters, ask.backends, kind=request.hardware.kind), meshes)
    table = table.take(screen(setting, knob_rules_of(request), table) < 0)
    return bool(len(table)) and bool((need_bytes(setting, table) <= request.budget_bytes).any())


def _but(rules: tuple[Rule, ...], names: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.name not in names)
