from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Mesh, Strategy
from planner.space.survivors import Costs, Fitting, alternatives, pareto_front, survivor_order


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


def fitting(table, costs, ratio=0.0, **parts):
    """Rows whose time is all in one part, unless ``parts`` has columns of several."""
    columns = {name: np.array(values, dtype=np.float64) for name, values in parts.items()} or {"gemm": costs.step_s}
    return Fitting(table, 1 / costs.step_s, costs, columns, ratio)


def order(table, costs, **more):
    return list(survivor_order(fitting(table, costs, **more)))


def test_backends_of_a_plan_are_one_row_and_come_last():
    table = _table(_strategy(), _strategy(remat="save-all"), _strategy(backend="nvshmem"))
    assert order(table, _costs([(1.0, 9, 8), (1.1, 5, 8), (1.0, 9, 8)])) == [0, 1, 2]


def test_a_backend_within_the_noise_gives_way_to_one_without_flags():
    table = _table(_strategy(backend="nvshmem"), _strategy())
    assert order(table, _costs([(1.0, 9, 8), (1.009, 9, 8)])) == [1, 0]
    assert order(table, _costs([(1.0, 9, 8), (1.02, 9, 8)])) == [0, 1]


def test_a_scheme_that_is_close_gets_a_compile_early():
    table = _table(
        _strategy(scheme="ulysses"), _strategy(scheme="ulysses", remat="save-all"), _strategy(), _strategy(scheme="ring")
    )
    costs = _costs([(1.0, 9, 8), (1.02, 8, 8), (1.05, 9, 8), (2.0, 9, 8)])
    assert order(table, costs) == [0, 2, 1, 3]


def test_of_equal_times_the_one_with_less_memory_is_chosen():
    """The case of the issue: 161.8 GiB beat 141.3 GiB by less than a thousandth of a second."""
    table = _table(_strategy(), _strategy(remat="save-all"))
    assert order(table, _costs([(1.0, 161.8, 8), (1.0004, 141.3, 8)]))[0] == 1


def test_parts_in_which_two_plans_agree_say_nothing_about_their_difference():
    """Attention of 10 s is in both. 0.6 s of communication for 0.4 s of recomputation: 0.2 s of 1.0 s that differ, so a
    half-width of 25 % cannot tell; 0.6 s more of one part alone is a difference at any half-width below one."""
    table = _table(_strategy(), _strategy(remat="save-all"))
    costs = _costs([(10.4, 100, 8), (10.6, 50, 8)])
    parts = {"attention": [10.0, 10.0], "comm_fsdp": [0.0, 0.6], "recompute": [0.4, 0.0]}
    assert order(table, costs, ratio=0.25, **parts)[0] == 1
    assert order(table, costs, ratio=0.15, **parts)[0] == 0
    alone = {"attention": [10.0, 10.0], "comm_fsdp": [0.0, 0.6]}
    assert order(table, _costs([(10.0, 100, 8), (10.6, 50, 8)]), ratio=0.5, **alone)[0] == 0


def test_a_tie_gives_up_four_per_cent_at_most():
    """A half-width of more than the time itself, as of a kind without published rows, does not make every plan a tie."""
    table = _table(_strategy(), _strategy(remat="save-all"))
    for second, first in ((1.039, 1), (1.041, 0)):
        costs = _costs([(1.0, 100, 8), (second, 50, 8)])
        assert order(table, costs, ratio=1.2, gemm=[1.0, 0.0], comm_fsdp=[0.0, second])[0] == first


def test_values_that_the_request_names_follow_their_plan():
    table = _table(_strategy(), _strategy(backend="nvshmem"), _strategy(remat="save-all"))
    asked = fitting(table, _costs([(1.0, 9, 8), (1.02, 9, 8), (1.1, 8, 8)]))
    assert list(survivor_order(asked)) == [0, 2, 1]
    assert list(survivor_order(replace(asked, asked=("backend",)))) == [0, 1, 2]


def test_ties_go_to_fewer_devices_and_then_to_less_memory():
    table = _table(_strategy(16), _strategy(8), _strategy(8, remat="save-all"))
    assert order(table, _costs([(1.0, 1, 16), (1.0, 5, 8), (1.0, 4, 8)]))[0] == 2


def test_alternatives_are_the_front_and_the_best_of_each_kind():
    table = _table(
        _strategy(scheme="ulysses", remat="save-all"),
        _strategy(remat="save-all"),
        _strategy(),
        _strategy(context=4, remat="full"),
    )
    costs = _costs([(1.0, 100, 8), (1.1, 99, 8), (1.2, 40, 8), (3.0, 90, 4)])
    found = {}
    for row, reason in alternatives(fitting(table, costs)):
        found.setdefault(row, []).append(reason)
    assert found == {
        0: ["front", "remat save-all", "scheme ulysses"],
        1: ["scheme ring-zigzag"],
        2: ["front", "remat full"],
    }, "99 of 100 is no step of the front, and one mesh family has no best"


def test_nothing_in_nothing_out():
    assert order(_table(), _costs([])) == []


@pytest.mark.parametrize("count", [1, 50])
def test_every_row_comes_once(count):
    table = _table(*[_strategy(2 ** (i % 5), remat=("full", "none")[i % 2]) for i in range(count)])
    costs = _costs([(1 + i % 7, 1 + i % 3, 2 ** (i % 5)) for i in range(count)])
    assert sorted(order(table, costs)) == list(range(count))
