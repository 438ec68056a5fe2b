"""What a worker makes of an exception: one short text."""

import pytest

from planner.measure.workers.worker import MAX_ERROR, kind_of, words_of


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


@pytest.mark.parametrize(
    ("error", "purpose", "kind"),
    [
        (JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), "compile", "error"),  # the program's own
        (JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), "time", "environment"),  # perhaps somebody else's
        (JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), "slice", "environment"),
        (JaxRuntimeError("INTERNAL: no"), "time", "error"),
        (OSError("disk"), "compile", "environment"),
    ],
)
def test_a_full_device_is_tried_again(error: Exception, purpose: str, kind: str) -> None:
    assert kind_of(error, {"job": {"purpose": purpose}}) == kind
    assert kind_of(ValueError("odd"), {"probe": {}}) == "error"
