"""StrategyTable: columns and strategies are the same thing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.inputs.table import CODES, StrategyTable
from lcplan.formats.errors import BadInputError
from lcplan.strategy import Mesh, Strategy

sizes = st.sampled_from([1, 2, 3, 8, 64])
points = st.builds(
    Strategy,
    mesh=st.builds(Mesh, data=sizes, fsdp=sizes, context=sizes, tensor=sizes),
    microbatches=st.integers(1, 64),
    loss_chunk_tokens=st.integers(1, 2**20),
    **{name: st.sampled_from(codes) for name, codes in CODES.items()},
)


@given(st.lists(points, min_size=1, max_size=5))
def test_a_table_gives_back_the_strategies_that_it_was_made_from(strategies):
    table = StrategyTable.from_strategies(strategies)
    assert [table.strategy(i) for i in range(len(table))] == strategies
    assert table.devices.tolist() == [strategy.devices for strategy in strategies]


def test_take_and_concatenate_keep_rows_and_order():
    strategies = [Strategy(mesh=Mesh(context=c), microbatches=c) for c in (1, 2, 4)]
    table = StrategyTable.from_strategies(strategies)
    assert [table.take(np.array([2, 0])).strategy(i) for i in range(2)] == [strategies[2], strategies[0]]
    assert len(table.take(np.array([True, False, True]))) == 2
    joined = StrategyTable.concatenate([table, table.take(slice(1, 2))])
    assert [joined.strategy(i) for i in range(4)] == [*strategies, strategies[1]]


def test_columns_are_int64_sizes_and_int8_codes():
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh())])
    assert table.context.dtype == np.int64
    assert all(getattr(table, name).dtype == np.int8 for name in CODES)


def test_an_axis_order_without_a_law_is_refused_with_the_known_ones():
    strategy = Strategy(mesh=Mesh(), axis_order=("tensor", "data", "fsdp", "context", "expert"))
    with pytest.raises(
        BadInputError, match="axis_order=tensor,data,fsdp,context,expert has no cost model; use one of: data,fsdp"
    ):
        StrategyTable.from_strategies([strategy])
