"""What a worker makes of an exception: one short text."""

import pytest

from planner.measure.worker import MAX_ERROR, words_of


class JaxRuntimeError(Exception):
    """As jax names its compiler's errors."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("heads=7\n  do not divide\n\nand a long story"), "ValueError: heads=7 do not divide"),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), "RESOURCE_EXHAUSTED: out of memory"),
        (AssertionError(), "AssertionError"),
        (JaxRuntimeError(), "JaxRuntimeError"),
    ],
)
def test_an_error_is_its_kind_and_its_first_words(error: Exception, words: str) -> None:
    assert words_of(error) == words


def test_a_long_story_is_cut() -> None:
    told = words_of(ValueError("x" * 2 * MAX_ERROR))
    assert len(told) == MAX_ERROR
    assert told.endswith("...")
