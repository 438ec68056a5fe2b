import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Mesh, Strategy
from planner.space.survivors import Costs, pareto_front, survivor_order


def _costs(rows):
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Costs(step_s=columns[0], memory_bytes=columns[1], devices=columns[2])


def _front_by_definition(rows):
    """O(n^2), straight from the definition; of equal rows one stands for all."""
    unique = set(rows)
    beats = lambda a, b: a != b and all(x <= y for x, y in zip(a, b, strict=True))  # noqa: E731
    return {row for row in unique if not any(beats(other, row) for other in unique)}


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)), max_size=40))
def test_the_front_is_the_definition(rows):
    front = pareto_front(_costs(rows))
    found = [row for row, on in zip(rows, front, strict=True) if on]
    assert set(found) == _front_by_definition(rows)
    assert len(found) == len(set(found))


def _table(*strategies):
    return StrategyTable.from_strategies(list(strategies))


def _strategy(context=8, scheme="ring-zigzag", backend="nccl", remat="full"):
    return Strategy(mesh=Mesh(context=context), scheme=scheme, backend=backend, remat=remat)


def test_a_leader_brings_its_other_backends_before_the_next_best():
    table = _table(_strategy(), _strategy(remat="save-all"), _strategy(backend="nvshmem"))
    costs = _costs([(1.0, 9, 8), (1.1, 5, 8), (1.0, 9, 8)])
    assert list(survivor_order(table, 1 / costs.step_s, costs)) == [0, 2, 1]


def test_a_scheme_that_is_close_gets_a_compile_early():
    table = _table(
        _strategy(scheme="ulysses"), _strategy(scheme="ulysses", remat="save-all"), _strategy(), _strategy(scheme="ring")
    )
    costs = _costs([(1.0, 9, 8), (1.01, 8, 8), (1.05, 9, 8), (2.0, 9, 8)])
    assert list(survivor_order(table, 1 / costs.step_s, costs)) == [0, 2, 1, 3]


def test_ties_go_to_fewer_devices_and_then_to_less_memory():
    table = _table(_strategy(16), _strategy(8), _strategy(8, remat="save-all"))
    costs = _costs([(1.0, 1, 16), (1.0, 5, 8), (1.0, 4, 8)])
    assert next(iter(survivor_order(table, np.ones(3), costs))) == 2


def test_nothing_in_nothing_out():
    assert list(survivor_order(_table(), np.empty(0), _costs([]))) == []


@pytest.mark.parametrize("count", [1, 50])
def test_every_row_comes_once(count):
    table = _table(*[_strategy(2 ** (i % 5), remat=("full", "none")[i % 2]) for i in range(count)])
    costs = _costs([(1 + i % 7, 1 + i % 3, 2 ** (i % 5)) for i in range(count)])
    assert sorted(survivor_order(table, 1 / costs.step_s, costs)) == list(range(count))
