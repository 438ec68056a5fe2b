"""Flags are asked of XLA's and libtpu's own parsers; reports of jobs that an unknown flag ended are the cases."""

import sys
from importlib.util import find_spec

import pytest

from planner.measure.targets.flags import GONE, FlagParser

pytest.importorskip("jax")
PARSER = FlagParser(sys.executable)
KNOWN = "--xla_gpu_enable_latency_hiding_scheduler=true"
libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="needs libtpu's parser")


def test_all_known_flags_pass_at_once():
    assert PARSER.verdicts("XLA_FLAGS", (KNOWN, "--xla_dump_to=/nowhere")) == {KNOWN: True, "--xla_dump_to=/nowhere": True}
    assert PARSER.verdicts("XLA_FLAGS", ()) == {}


@libtpu
def test_unknown_flags_are_told_with_a_way_out():
    """jax-ml/jax#15616: a flag of libtpu's in XLA_FLAGS; openxla/xla#30187: one that is gone."""
    found = PARSER.verdicts(
        "XLA_FLAGS", ("--xla_tpu_spmd_rng_bit_generator_unsafe=1", "--xla_gpu_graph_level=0", "--xla_no_such=1", KNOWN, "word")
    )
    assert list(found.values()) == [
        "unknown, and ends the process; it belongs in LIBTPU_INIT_ARGS",
        f"unknown, and ends the process; {GONE['xla_gpu_graph_level']}",
        "unknown, and ends the process; leave it out",
        True,
        "does not start with --, so that XLA_FLAGS is read as a file's name",
    ]


@libtpu
def test_libtpu_names_the_nearest_and_the_values_that_it_refuses():
    """hiyouga/LlamaFactory#3896 and others: an older libtpu ended on a flag of a newer one."""
    words = ("--xla_tpu_scoped_vmem_limit_kib=many", "--xla_tpu_enable_latency_hidng_scheduler=true", KNOWN)
    found = PARSER.verdicts("LIBTPU_INIT_ARGS", words)
    assert found[words[0]] == "LIBTPU_INIT_ARGS does not take this value, and ends the process"
    assert found[words[1]] == "unknown, and ends the process; did you mean --xla_tpu_enable_latency_hiding_scheduler?"
    assert found[KNOWN] == "unknown, and ends the process; it belongs in XLA_FLAGS"


def test_a_value_that_xla_refuses_is_found_among_the_others():
    words = ("--xla_gpu_all_gather_combine_threshold_bytes=many", KNOWN)
    assert PARSER.verdicts("XLA_FLAGS", words) == {
        words[0]: "XLA_FLAGS does not take this value, and ends the process",
        KNOWN: True,
    }


def test_what_is_said_to_be_gone_is():
    """Every flag of the table is unknown to this jaxlib, or the table is wrong for it."""
    found = PARSER.verdicts("XLA_FLAGS", tuple(f"--{name}=true" for name in GONE))
    assert all(verdict is not True for verdict in found.values())
