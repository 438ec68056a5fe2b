"""What is kept of a worker's stderr."""

from planner.measure.workers.stderr_lines import MAX_WORDS, last_words, warnings_in

CUDART = "I0000 00:00:1.000000    5482 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used."


def test_the_fatal_line_wins_over_what_follows_and_loses_its_prefix() -> None:
    fatal = "F1127 10:00:00.000000  42 parse_flags.cc:13] Unknown flags in XLA_FLAGS: --xla_no"
    assert last_words(f"{CUDART}\n{fatal}\n*** trace ***\n    @ 0x1 f()\n") == "Unknown flags in XLA_FLAGS: --xla_no"


def test_without_a_fatal_line_the_last_that_is_no_noise() -> None:
    assert last_words(f"terminated by hand\n{CUDART}\n\n") == "terminated by hand"


def test_a_traceback_gives_its_error() -> None:
    text = (
        "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'jax'\n"
    )
    assert last_words(text) == "ModuleNotFoundError: No module named 'jax'"


def test_noise_alone_says_nothing() -> None:
    assert last_words(f"{CUDART}\n{CUDART}\n") == ""
    assert last_words("") == ""


def test_long_words_are_cut() -> None:
    assert len(last_words("x" * 5000)) == MAX_WORDS


def test_rematerialization_is_a_warning_with_its_count() -> None:
    line = "W1127 10:00:00.000000 42 spmd_partitioner.cc:652] [SPMD] Involuntary full rematerialization. It cannot go from"
    assert warnings_in(f"{line}\n{CUDART}\n{line}\n") == (
        "involuntary full rematerialization: the partitioner replicates a tensor on every device (2 places)",
    )
    assert warnings_in(CUDART) == ()
