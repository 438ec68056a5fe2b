import pytest

from planner.validate.run import validate
from planner.validate.scoring.rankings import comparisons, in_bar
from planner.validate.scoring.row_result import RowResult
from planner.validate.sources.bundled import find_table
from planner.validate.sources.table import Row
from tests.planner.validate.made import row


def pair_of(name, *, scheme, measured, predicted, context=8, tensor=1):
    mesh = {"data": 1, "fsdp": 1, "context": context, "tensor": tensor, "expert": 1, "pipe": 1}
    made = Row.model_validate(row(id=name, mesh=mesh, strategy={"scheme": scheme}, measured={"step_s": measured}))
    result = RowResult(
        name, {"step_s": measured}, predicted={"step_s": predicted}, error_ratio={"step_s": predicted / measured - 1}
    )
    return made, result


def test_a_scheme_predicted_within_5_percent_of_first_is_right():
    ring = pair_of("a", scheme="ring", measured=2.0, predicted=2.0)
    for predicted, right in ((1.9, True), (2.04, True), (2.2, False)):
        (found,) = comparisons([ring, pair_of("b", scheme="ulysses", measured=1.0, predicted=predicted)])
        assert (found.best, found.right, found.rows) == ("ulysses", right, ("a", "b"))
        assert found.measured == {"ring": 2.0, "ulysses": 1.0}


def test_a_scheme_stands_by_its_best_row_on_each_side():
    rows = [
        pair_of("slow", scheme="ring", measured=9.0, predicted=1.0),
        pair_of("fast", scheme="ring", measured=1.0, predicted=9.0),
        pair_of("other", scheme="ulysses", measured=2.0, predicted=2.0),
    ]
    (found,) = comparisons(rows)
    assert found.measured == {"ring": 1.0, "ulysses": 2.0}
    assert found.predicted == {"ring": 1.0, "ulysses": 2.0}


def test_tensor_alone_is_a_scheme_and_one_scheme_is_no_comparison():
    ring = pair_of("a", scheme="ring", measured=2.0, predicted=2.0)
    tensor = pair_of("b", scheme=None, measured=3.0, predicted=3.0, context=1, tensor=8)
    assert set(comparisons([ring, tensor])[0].measured) == {"ring", "tensor"}
    assert comparisons([ring, ring]) == ()
    assert comparisons([ring, pair_of("c", scheme=None, measured=3.0, predicted=3.0, context=1)]) == ()


def test_rows_that_were_not_modelled_take_no_part():
    ring = pair_of("a", scheme="ring", measured=2.0, predicted=2.0)
    made, _ = pair_of("b", scheme="usp", measured=1.0, predicted=1.0)
    assert comparisons([ring, (made, RowResult("b", {"step_s": 1.0}, why="scheme: usp", reason="scheme"))]) == ()


@pytest.mark.parametrize("name", ["ring-flash-attention", "usp-long-context-attention", "distflashattn", "burstengine-a800"])
def test_published_comparisons_are_ranked_right(name):
    table, path = find_table(name)
    found = validate(table, path.parent).rankings
    assert len(found) >= 4
    assert sum(c.right for c in found) >= 0.8 * len(found)
    counted = [c.right for c in found if c.in_bar]
    assert len(counted) >= 4
    assert sum(counted) >= 0.9 * len(counted)
    assert set(found[0].to_json()) == {"quantity", "rows", "measured", "predicted", "in_bar", "over", "best", "right"}


def test_heads_of_32_do_not_count_for_the_bar():
    row, _ = pair_of("a", scheme="ring", measured=2.0, predicted=2.0)
    small, large = (row.model_copy(update={"model": {"head_dim": size}}) for size in (32, 128))
    assert [in_bar("usp-long-context-attention", r) for r in (row, small, large)] == [False, False, True]
    assert in_bar("distflashattn", small)
    assert not in_bar("magiattention-cp", large)
