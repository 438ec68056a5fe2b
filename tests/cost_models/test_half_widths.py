"""Half-widths by hand, from errors of made tables."""

import math

import pytest

from cost_models.uncertainty.bands import bands
from cost_models.uncertainty.errors import TableErrors, half_width
from cost_models.uncertainty.kind import Kind, RestsOn, call_kind, rests_on

STEP = Kind("time", "xla", "compute")
H100 = RestsOn("xla", own=False, rates="H100", measured=True)


def errors(*found, kind=STEP):
    return [TableErrors(kind, rates, table, rows, mean, worst) for table, rates, rows, mean, worst in found]


def test_twice_the_mean_error_each_table_once():
    """(0.02 + 0.06) / 2 = 0.04, though one table has nine times the rows of the other: exp(0.08) - 1 = 8.33 %."""
    known = errors(("a", "H100", 90, 0.02, 0.1), ("b", "H100", 10, 0.06, 0.1), ("c", "A100", 50, 0.5, 0.9))
    found = half_width(STEP, H100, errors=known)
    assert found.ratio == pytest.approx(math.exp(0.08) - 1)
    assert found.basis == "100 rows of 2 tables: time of steps of XLA programs, mostly compute, on rates of H100"


def test_one_table_of_the_device_is_joined_by_those_of_others():
    known = errors(("a", "H100", 90, 0.02, 0.1), ("c", "A100", 50, 0.10, 0.9))
    assert half_width(STEP, H100, errors=known).ratio == pytest.approx(math.exp(2 * 0.06) - 1)


def test_rates_that_nobody_measured_and_no_row_is_on_get_the_worst_table():
    known = errors(("a", "H100", 90, 0.02, 0.1), ("c", "A100", 50, 0.10, 0.9))
    unknown = RestsOn("xla", own=False, rates="mi300x", measured=False)
    found = half_width(STEP, unknown, errors=known)
    assert found.ratio == pytest.approx(math.exp(0.2) - 1)
    assert not found.own
    assert "no published row on mi300x" in found.basis


def test_a_kind_in_one_table_gets_its_largest_error():
    known = errors(("a", "H100", 90, 0.02, 0.3)) + errors(("b", "H100", 9, 0.1, 0.9), kind=Kind("time", "xla", "host"))
    assert half_width(STEP, H100, errors=known).ratio == pytest.approx(math.exp(0.3) - 1)


def test_a_kind_in_no_table_gets_the_largest_error_of_any_step():
    calls = errors(("c", "H100", 9, 0.1, 5.0), kind=Kind("time", "call", "any"))
    known = errors(("b", "H100", 9, 0.1, 0.9), kind=Kind("time", "xla", "host")) + calls
    found = half_width(STEP, H100, errors=known)
    assert found.ratio == pytest.approx(math.exp(0.9) - 1)
    assert not found.own
    assert "no published row" in found.basis


def test_a_table_can_be_left_out():
    known = errors(("a", "H100", 90, 0.02, 0.1), ("b", "H100", 10, 0.06, 0.1), ("c", "H100", 50, 0.10, 0.9))
    assert half_width(STEP, H100, errors=known, without="c").ratio == pytest.approx(math.exp(0.08) - 1)


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
    found = bands(H100, time_s={"gemm": 2.0}, total_bytes=1000.0)
    assert found["step_s_low"] * found["step_s_high"] == pytest.approx(4.0)
    assert found["step_s_high"] == pytest.approx(2.0 * (1 + found["uncertainty"]["time_ratio"]))
    assert 0.02 < found["uncertainty"]["time_ratio"] < 0.5
    assert found["memory_bytes_low"] < 1000 < found["memory_bytes_high"]


def test_lcplans_own_step_has_memory_rows_of_its_own(llama):
    own = rests_on(llama)
    assert own.rates == "GB200"
    assert own.memory_kind == Kind("memory", "lcplan", "any")
    assert own.measured
