"""Distinct placements: every row gets its own, knobs make no new ones, and costs are the same to the bit."""

from itertools import product

import numpy as np
import pytest

from cost_models.collectives.network import Network
from cost_models.collectives.placements import FEWEST_ROWS, PLACED_BY, distinct_places
from cost_models.collectives.step import terms_of
from cost_models.inputs.layout import Layout
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from lcplan.strategy import Mesh, Strategy

MESHES = [Mesh(fsdp=f, context=c, tensor=t) for f, c, t in product((1, 2, 8), (1, 4), (1, 2))]


@pytest.fixture
def layout(llama):
    knobs = list(product(MESHES, ("ring", "ulysses"), ("full", "none"), range(1, 16)))
    made = [Strategy(mesh=mesh, scheme=scheme, remat=remat, microbatches=m) for mesh, scheme, remat, m in knobs]
    return Layout(llama, StrategyTable.from_strategies(made))


def test_remat_and_microbatches_share_a_place(layout):
    places = distinct_places(layout)
    assert len(layout.table) >= FEWEST_ROWS
    assert len(places.layout.table) == len(MESHES) * 2  # two schemes
    for name in PLACED_BY:
        assert np.array_equal(getattr(places.layout.table, name)[places.index], getattr(layout.table, name))


def test_costs_are_those_of_each_row_alone(layout):
    rates = rates_for(layout.setting)
    together = Network.of(layout, rates)
    short = Layout(layout.setting, layout.table.take(slice(0, FEWEST_ROWS - 1)))
    alone = Network.of(short, rates)
    assert distinct_places(short).index is None
    for whole, term in zip(terms_of(layout), terms_of(short), strict=True):
        assert np.array_equal(together.seconds(whole)[: FEWEST_ROWS - 1], alone.seconds(term))
        assert np.array_equal(together.span(whole).members[: FEWEST_ROWS - 1], alone.span(term).members)
