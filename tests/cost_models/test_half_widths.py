"""Half-widths by hand, from errors of made tables."""

import math

import pytest

from cost_models.uncertainty.bands import bands
from cost_models.uncertainty.errors import NEAREST, PublishedErrors, RowError
from cost_models.uncertainty.kind import Kind, PredictionFacts, RestsOn, call_kind, rests_on, shares

STEP = Kind("time", "xla", "compute")
H100 = RestsOn("xla", own=False, rates="H100", measured=True)


def about(*, kind=STEP, rates="H100", gemm=0.9, whole=1.0):
    return PredictionFacts(kind, rates, shares({"gemm": gemm, "attention": 1.0 - gemm}), whole)


def rows(*errors, table="a", **facts):
    return [RowError(table, str(number), about(**facts), error) for number, error in enumerate(errors)]


FIRST = [0.001 * number for number in range(1, NEAREST + 1)]
"""Nineteen errors, of which the 18th is 0.018."""


def test_the_half_width_is_the_18th_of_the_19_most_similar_rows():
    known = PublishedErrors([*rows(*FIRST), *rows(0.5, 0.6, 0.7, gemm=0.2)])
    found = known.half_width(about())
    assert found.ratio == pytest.approx(math.expm1(0.018))
    assert found.own
    assert "19 most similar published rows, of 1 table" in found.basis
    assert "mostly compute" in found.basis


def test_rows_as_near_as_the_last_count_too():
    """40 equal rows: the 90 % quantile of 40 errors and one to come is the 37th."""
    known = PublishedErrors(rows(*(0.001 * number for number in range(1, 41))))
    assert known.half_width(about()).ratio == pytest.approx(math.expm1(0.037))


@pytest.mark.parametrize("nearer", [{"gemm": 0.8}, {"rates": "A100"}, {"whole": 3.0}])
def test_nearer_rows_decide(nearer):
    """Of a row with other shares, device or length, the more similar one counts: a step with half the products is far."""
    known = PublishedErrors([*rows(*FIRST, **nearer), *rows(*[0.9] * NEAREST, gemm=0.5), *rows(*[0.8] * 3, gemm=0.1)])
    assert known.half_width(about()).ratio == pytest.approx(math.expm1(0.018))


def test_other_programs_are_evidence_only_where_no_row_is_nearer():
    torch = rows(*[0.9] * NEAREST, kind=Kind("time", "torch", "compute"))
    assert PublishedErrors([*torch, *rows(*FIRST)]).half_width(about()).ratio == pytest.approx(math.expm1(0.018))
    far = PublishedErrors([*torch, *rows(*FIRST[:5])]).half_width(about())
    assert far.ratio == pytest.approx(math.expm1(0.9))
    assert not far.own


def test_a_device_without_rows_gets_the_largest_error_of_the_most_similar():
    found = PublishedErrors(rows(*FIRST)).half_width(about(rates="mi300x"))
    assert found.ratio == pytest.approx(math.expm1(0.019))
    assert not found.own
    assert "no published row is similar" in found.basis


def test_the_half_width_is_infinite_without_rows():
    calls = rows(*FIRST, kind=Kind("time", "call", "any"))
    assert math.isinf(PublishedErrors(calls).half_width(about()).ratio)


def test_a_row_or_a_table_can_be_left_out():
    known = PublishedErrors([*rows(*FIRST), *rows(*[0.05] * 20, table="b", gemm=0.8)])
    assert known.half_width(about()).ratio == pytest.approx(math.expm1(0.018))
    assert known.half_width(about(), without=("a", "3")).ratio == pytest.approx(math.expm1(0.05))
    assert known.half_width(about(), without=("a", None)).ratio == pytest.approx(math.expm1(0.05))


def test_memory_of_lcplans_own_step_is_alike_on_one_device():
    own = Kind("memory", "lcplan", "any")
    known = PublishedErrors([*rows(*FIRST, kind=own, gemm=0.1), *rows(*[0.2] * 30, kind=Kind("memory", "xla", "any"))])
    assert known.half_width(PredictionFacts(own, "H100")).ratio == pytest.approx(math.expm1(0.018))


def test_halves_of_an_iteration_have_the_parts_of_a_step():
    assert shares({"train_gemm": 1.0, "rollout_gemm": 1.0, "train_hbm": 2.0}) == {"gemm": 0.5, "hbm": 0.5}


@pytest.mark.parametrize(
    ("times", "regime"),
    [
        ({"gemm": 0.85, "comm_fsdp": 0.15, "overhead": 0.0}, "compute"),
        ({"gemm": 0.80, "comm_fsdp": 0.10, "contention": 0.10}, "communication"),
        ({"gemm": 0.5, "comm_fsdp": 0.25, "overhead": 0.25}, "host"),
    ],
)
def test_the_regime_is_that_of_the_large_shares(times, regime):
    assert H100.time_kind(times).regime == regime


def test_only_short_calls_that_a_host_launches_over_ranks_are_short():
    assert call_kind(0.009, launched=True).regime == "short"
    assert call_kind(0.011, launched=True).regime == "any"
    assert call_kind(0.009, launched=False).regime == "any"


def test_bands_are_symmetric_in_ratio():
    found = bands(H100, time_s={"gemm": 2.0}, memory_bytes={"params": 600.0, "working_set": 400.0})
    assert found["step_s_low"] * found["step_s_high"] == pytest.approx(4.0)
    assert found["step_s_high"] == pytest.approx(2.0 * (1 + found["uncertainty"]["time_ratio"]))
    assert 0.02 < found["uncertainty"]["time_ratio"] < 0.5
    assert found["memory_bytes_low"] < 1000 < found["memory_bytes_high"]


def test_lcplans_own_step_has_memory_rows_of_its_own(llama):
    own = rests_on(llama)
    assert own.rates == "GB200"
    assert own.memory_kind == Kind("memory", "lcplan", "any")
    assert own.measured
