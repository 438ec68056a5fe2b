"""Sizes, rates and counts as people type and read them."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcplan.formats import units
from lcplan.formats.errors import BadInputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80GiB", 80 * 2**30),
        ("80 gib", 80 * 2**30),
        ("80GB", 80 * 10**9),
        ("1.5KiB", 1536),
        ("123", 123),
        ("2e9", 2 * 10**9),
        ("1.7GiB", 1825361100),  # 1.7 * 2^30 = 1825361100.8; a fraction of a byte is dropped above 1 MiB
        ("9007199254740993", 9007199254740993),  # 2^53 + 1: exact, though no float holds it
    ],
)
def test_bytes_as_typed(text, expected):
    assert units.parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("262144", 262144), ("256k", 262144), ("1m", 2**20), ("0.5k", 512), (" 8K ", 8192)]
)
def test_tokens_as_typed(text, expected):
    assert units.parse_tokens(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (units.parse_bytes_per_s, "25GB/s", 25e9),
        (units.parse_bytes_per_s, "25 GB / s", 25e9),
        (units.parse_bytes_per_s, "2.5e10", 2.5e10),
        (units.parse_flop_per_s, "989TFLOP/s", 989e12),
        (units.parse_flop_per_s, "2.5 pflop/s", 2.5e15),
        (units.parse_seconds, "5us", 5e-6),
        (units.parse_seconds, "0.25 ms", 2.5e-4),
        (units.parse_seconds, "2", 2.0),
        (units.parse_watts, "700W", 700.0),
        (units.parse_watts, "1.2kW", 1200.0),
    ],
)
def test_rates_as_typed(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_tokens, "0", "sequence length '0' is not above zero; write for example 262144, 256k or 1m"),
        (units.parse_tokens, "-5", "sequence length '-5' is not above zero; write for example 262144, 256k or 1m"),
        (
            units.parse_tokens,
            "256q",
            "sequence length '256q' is not a number with an optional suffix (k, m); write for example 262144, 256k or 1m",
        ),
        (units.parse_tokens, "0.3k", "sequence length '0.3k' is not a whole number; write for example 262144, 256k or 1m"),
        (units.parse_tokens, "1e999", "sequence length '1e999' is too large; write for example 262144, 256k or 1m"),
        (units.parse_tokens, "1e70", "sequence length '1e70' is too large; write for example 262144, 256k or 1m"),
        (
            units.parse_bytes,
            "",
            "size '' is not a number with an optional suffix (b, kb, mb, gb, tb, kib, mib, gib, tib); write for example 80GiB",
        ),
        (units.parse_bytes, "-3", "size '-3' is not above zero; write for example 80GiB"),
        (units.parse_bytes, "9999999999TiB", "size '9999999999TiB' is too large; write for example 80GiB"),
        (
            units.parse_bytes_per_s,
            "200Gbit/s",
            "bandwidth '200Gbit/s' is not a number with an optional suffix (b, kb, mb, gb, tb, kib, mib, gib, tib); "
            "write for example 25GB/s",
        ),
        (units.parse_seconds, "5h", "time '5h' is not a number with an optional suffix (s, ms, us, ns); write for example 5us"),
    ],
)
def test_what_is_refused_says_why_and_shows_a_way_out(parse, text, message):
    with pytest.raises(BadInputError) as error:
        parse(text)
    assert str(error.value) == message


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text):
    for parse in (units.parse_bytes, units.parse_tokens, units.parse_seconds, units.parse_flop_per_s):
        with contextlib.suppress(BadInputError):
            assert 0 < parse(text) < math.inf


@given(st.integers(1, 2**40))
def test_printed_tokens_parse_to_themselves(tokens):
    assert units.parse_tokens(units.format_tokens(tokens)) == tokens


@given(st.integers(1, 2**49))
def test_printed_bytes_parse_to_within_their_last_digit(count):
    text = units.format_bytes(count)
    unit = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[text.split()[1]]
    parsed = float(text.split()[0]) * unit
    assert abs(parsed - count) <= 0.05 * unit + 1


@given(st.floats(1e-9, 1e6))
def test_printed_seconds_keep_three_digits(seconds):
    number, unit = units.format_seconds(seconds).split()
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]
    assert float(number) * scale == pytest.approx(seconds, rel=0.006)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (80 * 2**30, "80.0 GiB"), (-(2**30), "-1.0 GiB")]
)
def test_bytes_as_printed(value, text):
    assert units.format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(8_030_261_248, "8.03 B"), (999, "999"), (1500, "1.5 k"), (4.1e14, "410 T"), (3_000_000, "3 M")]
)
def test_counts_as_printed(value, text):
    assert units.format_count(value) == text


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_no_time_is_a_dash(value):
    assert units.format_seconds(value) == "-"


@pytest.mark.parametrize(
    ("value", "count", "seconds"), [(999.7, "1 k", "1000 s"), (3612.0, "3.61 k", "3612 s"), (0.9996, "1", "1 s")]
)
def test_no_figure_has_an_exponent(value, count, seconds):
    assert units.format_count(value) == count
    assert units.format_seconds(value) == seconds
