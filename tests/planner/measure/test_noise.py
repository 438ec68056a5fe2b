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


def test_a_plugin_without_its_device_is_not_what_a_process_died_of() -> None:
    refusal = (
        "Jax plugin configuration error: Exception when calling jax_plugins.xla_rocm7.initialize()\n"
        "Traceback (most recent call last):\n"
        '  File "xla_bridge.py", line 495, in discover_pjrt_plugins\n    plugin_module.initialize()\n'
        "ValueError: No AMD GPUs were found, skipping ROCm plugin initialization\n"
    )
    assert last_words(f"{refusal}killed at last\n") == "killed at last"
    assert last_words(f"{refusal}F1127 10:00:00.000000  42 a.cc:13] Check failed: x\n") == "Check failed: x"
    assert last_words(refusal) == ""


def test_long_words_are_cut() -> None:
    assert len(last_words("x" * 5000)) == MAX_WORDS


def test_rematerialization_is_a_warning_with_its_count() -> None:
    line = "W1127 10:00:00.000000 42 spmd_partitioner.cc:652] [SPMD] Involuntary full rematerialization. It cannot go from"
    assert warnings_in(f"{line}\n{CUDART}\n{line}\n") == (
        "involuntary full rematerialization: the partitioner replicates a tensor on every device (2 places)",
    )
    assert warnings_in(CUDART) == ()
