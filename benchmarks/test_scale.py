"""Scale: a modelled search, its explanation and the count of its space on thousands of devices, and how they grow.

``pytest benchmarks/test_scale.py`` measures CPU seconds and memory in processes of their own; the bars have
a factor of two for a busy machine.
"""

import json
import resource
import subprocess
import sys

import pytest

CODE = "import sys; from planner.cli.main import run; sys.exit(run(sys.argv[1:]))"
SEARCH = ("search", "--model", "llama3.1-405b", "--seq", "128k", "--stages", "modelled", "--format", "json")


def measured(tmp_path, *words):
    """Output, CPU seconds and peak memory [GiB] of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, cwd=tmp_path, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, cpu_s, after.ru_maxrss / 2**20


def test_a_search_over_ten_thousand_devices_takes_seconds(tmp_path):
    out, cpu_s, memory_gib = measured(tmp_path, *SEARCH, "--hw", "gb200-nvl72x142", "--out", "run")
    assert json.loads(out)["winner"]["strategy"]["devices"] >= 9000
    assert (cpu_s < 10, memory_gib < 1.5) == (True, True), f"{cpu_s:.1f} s, {memory_gib:.2f} GiB"
    for command, most_s in (("explain", 10), ("report", 20)):
        _, cpu_s, _ = measured(tmp_path, command, "run")
        assert cpu_s < most_s, f"{command}: {cpu_s:.1f} s"


@pytest.mark.parametrize("racks", [14])
def test_ten_times_the_devices_cost_at_most_ten_times_as_much(tmp_path, racks):
    _, small_s, _ = measured(tmp_path, *SEARCH, "--hw", f"gb200-nvl72x{racks}")
    _, large_s, _ = measured(tmp_path, *SEARCH, "--hw", f"gb200-nvl72x{10 * racks}")
    assert large_s < 10 * small_s, f"{small_s:.1f} s, {large_s:.1f} s"
