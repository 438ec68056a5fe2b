"""How long a sweep of 50 points takes, all in: ``pytest benchmarks``."""

import subprocess
import sys

BAR_S = 3.0
SWEEP = [
    "whatif",
    "sweep",
    *("--model", "llama3-8b", "--hw", "dgx-h100x4", "--seq", "64k", "--format", "json"),
    *("--vary", "hbm=40GiB,80GiB,141GiB,192GiB,288GiB", "--vary", "seq=8k..4m"),
]
RUN = "import sys; from planner.cli.main import run; sys.exit(run(sys.argv[1:]))"


def test_fifty_points_from_the_command_line(benchmark):
    command = [sys.executable, "-c", RUN, *SWEEP]
    done = benchmark.pedantic(subprocess.run, args=(command,), kwargs={"capture_output": True, "check": True}, rounds=3)
    assert done.stdout.count(b'"binds":') == 50
    assert benchmark.stats.stats.min < BAR_S
