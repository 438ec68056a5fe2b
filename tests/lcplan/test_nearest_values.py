"""Values of a message are the nearest to the value that was given."""

import pytest

from lcplan.formats.nearest import divisors, near_divisors, near_multiples, nearest


@pytest.mark.parametrize(
    ("number", "given", "limits", "words"),
    [
        (160_000, 1024, {}, "800, 1000, 1250 or 1280"),
        (160_000, 1024, {"step": 4}, "800, 1000, 1280 or 1600"),
        (64, 6, {}, "2, 4, 8 or 16"),
        (64, 100, {"limit": 16}, "2, 4, 8 or 16"),
        (7, 3, {}, "1 or 7"),
        (12, 5, {"step": 12}, "12"),
    ],
)
def test_divisors(number, given, limits, words):
    assert near_divisors(number, given, **limits) == words


def test_nearest_by_ratio():
    assert nearest((1, 2, 4, 8, 16, 32, 64), 20) == "8, 16, 32 or 64"
    assert nearest((), 3) == ""


@pytest.mark.parametrize(
    ("step", "given", "most", "words"),
    [(48, 131_072, None, "131040 or 131088"), (8, 5, None, "8"), (4, 66, 72, "64 or 68"), (4, 76, 72, "72"), (4, 0, 72, "4")],
)
def test_multiples(step, given, most, words):
    assert near_multiples(step, given, most=most) == words


def test_all_divisors_of_a_square():
    assert divisors(36) == (1, 2, 3, 4, 6, 9, 12, 18, 36)
