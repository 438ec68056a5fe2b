import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.validate.scoring.score import errors, rank_correlation, summary, verdicts


def test_errors_are_signed_and_of_what_both_sides_have():
    found = errors({"step_s": 2.0, "peak_bytes": 10.0}, {"step_s": 1.5, "tokens_per_s_per_device": 1.0})
    assert found == {"step_s": -0.25}


@pytest.mark.parametrize(("measured", "predicted", "error"), [(True, True, 0.0), (False, True, 1.0), (True, False, -1.0)])
def test_a_verdict_is_right_unsafe_or_too_careful(measured, predicted, error):
    assert errors({"fits": measured}, {"fits": predicted}) == {"fits": error}


def test_a_summary_by_hand():
    found = summary([0.1, -0.3, 0.05], ranks=0.5, leave_one_out=0.2)
    assert found.rows == 3
    assert found.mean_abs_error_ratio == pytest.approx(0.15)
    assert found.bias_ratio == pytest.approx(-0.05)
    assert found.worst_error_ratio == -0.3
    assert set(found.to_json()) == {
        "rows",
        "mean_abs_error_ratio",
        "bias_ratio",
        "worst_error_ratio",
        "leave_one_out_ratio",
        "rank_correlation",
    }


def test_verdicts_near_the_budget_do_not_count():
    found = verdicts([0.0, 1.0, 1.0, -1.0], [0.5, 1.05, 0.7, 1.3], [True, True, True, False])
    assert (found.outside_band_rows, found.outside_band_right, found.outside_band_unsafe) == (3, 1, 1)
    assert found.outside_band_contradicted == 1


def test_rank_correlation_by_hand():
    # ranks 0 1 2 3 against 0 2 1 3: 1 - 6 (0 + 1 + 1 + 0) / (4 x 15)
    assert rank_correlation([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 9.0]) == pytest.approx(0.8)
    assert rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -1.0
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None
    assert rank_correlation([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]) is None


def test_equal_values_share_the_mean_of_their_ranks():
    # ranks 0 1.5 1.5 3 against 0 1 2 3, less their means: 4.5 / sqrt(4.5 x 5)
    assert rank_correlation([1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx(4.5 / 22.5**0.5)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=3, max_size=30))
def test_only_the_order_counts(pairs):
    measured, predicted = ([float(value) for value in side] for side in zip(*pairs, strict=True))
    found = rank_correlation(measured, predicted)
    assert found == rank_correlation(predicted, measured)
    assert found == rank_correlation([value**3 + 1.0 for value in measured], predicted)
    assert found is None or found == -rank_correlation([-value for value in measured], predicted)
