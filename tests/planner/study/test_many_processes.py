"""Several processes that time one step together, as on several hosts: here two, with four host devices each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

WORKER = "from planner.cli.main import main; main()"


def _address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_two_processes_search_and_time_what_takes_the_devices_of_both(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, "search", "--model", "llama-tiny", "--seq", "512", "--hw", "cpu-host"]
    job = ["--devices", "8", "--mesh", "context=4,data=2", "--global-batch", "2", "--scheme", "ring", "--remat", "full"]
    options = ["--stages", "timed", "--survivors", "1", "--out", "run", "--format", "json", "--engine", "processes:4"]
    shared = {"JAX_COORDINATOR_ADDRESS": _address(), "JAX_NUM_PROCESSES": "2"}
    with ExitStack() as stack:
        both = []
        for rank in ("0", "1"):
            process = subprocess.Popen(
                [*command, *job, *options],
                env={**os.environ, **shared, "JAX_PROCESS_ID": rank},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
            )
            both.append(stack.enter_context(process))
            stack.callback(process.kill)
        said = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    timed = json.loads(said[0][0])["winner"]["timed"]
    assert timed["device"].endswith("in 2 processes")
    assert timed["rung"] == "timed:full"
    assert len(timed["samples"]) >= 3
    assert said[1][1].splitlines()[-1] == "1 steps run with process 0"
