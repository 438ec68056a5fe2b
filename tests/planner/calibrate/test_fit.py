"""Medians, spreads, and constants that are never below zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.calibrate.fit import Timing, non_negative_fit


def test_one_disturbed_sample_moves_neither_median_nor_spread():
    timing = Timing((1.0, 1.0, 1.0, 1.0, 1.0, 9.0))
    assert (timing.median_s, timing.spread_ratio) == (1.0, 0.0)


def test_spread_is_the_quartiles_distance_over_the_median():
    # quartiles of 1..5 are 2 and 4, the median is 3
    assert Timing((1.0, 2.0, 3.0, 4.0, 5.0)).spread_ratio == pytest.approx(2 / 3)


@given(st.floats(1e-6, 1e-3), st.floats(1e-12, 1e-9))
def test_exact_timings_give_their_constants_back(latency, each):
    sizes = np.array([1e3, 1e6, 1e8])
    terms = np.stack([np.ones(3), sizes], axis=1)
    assert non_negative_fit(terms, list(latency + each * sizes)) == pytest.approx([latency, each])


def test_a_constant_that_would_be_negative_is_zero():
    terms = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    latency, each = non_negative_fit(terms, [1.0, 2.5, 5.5])  # a line through these meets zero below the axis
    assert latency == 0.0
    assert each > 1.0
