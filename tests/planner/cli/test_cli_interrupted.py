"""A search that is stopped half-way, by a kill or by hand: what was compiled stays, the same command does exactly the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from planner.study import Store

WANTED, HALF = 4, 2
SMALL = Path(__file__).with_name("small_steps.py")
SEARCH = (
    "search --model llama-tiny --seq 1k --global-batch 2 --hw cpu-host --devices 2 --mesh context=2 --stages compiled"
    f" --survivors {WANTED} --jobs 1 --out run --format json"
).split()


@contextmanager
def search(folder: Path, *, stop_at: int = 0, program: str = "counts") -> Iterator[subprocess.Popen[str]]:
    """A search in a process group of its own, killed on the way out; its job number ``stop_at`` never comes back."""
    environment = {**os.environ, "ODD_LOG_FILE": str(folder / "log"), "ODD_STOP_AT": str(stop_at)}
    command = [sys.executable, str(SMALL), program, *SEARCH]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def log(folder: Path) -> list[tuple[int, str]]:
    """(worker's process id, strategy) of each compile that was begun."""
    file = folder / "log"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(pid), label) for pid, label in (line.split(" ", 1) for line in lines)]


def wait_until_begun(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    end = time.monotonic() + 120
    while len(log(folder)) < number:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "it did not come so far in time"
        time.sleep(0.05)


def end_of(pid: int, within_s: float = 15) -> bool:
    """Whether the process ends; one that its new parent has not reaped yet has ended."""
    end = time.monotonic() + within_s
    status = Path(f"/proc/{pid}/status")
    while time.monotonic() < end:
        try:
            if "State:\tZ" in status.read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def stored(folder: Path) -> int:
    store = Store.open(f"sqlite:///{folder}/run/study.db")
    try:
        return len(store.results)
    finally:
        store.close()


def resume(folder: Path) -> list[str]:
    """What the same command compiles now."""
    before = len(log(folder))
    with search(folder) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert json.loads(out)["space"]["survivors"] == WANTED
    return [label for _, label in log(folder)[before:]]


def test_kill_9_after_half_and_the_other_half(tmp_path: Path) -> None:
    with search(tmp_path, stop_at=HALF + 1) as process:
        wait_until_begun(process, tmp_path, HALF + 1)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    assert all(end_of(pid) for pid, _ in log(tmp_path))  # the workers have groups of their own, and end by themselves
    first = [label for _, label in log(tmp_path)]
    assert stored(tmp_path) == HALF
    rest = resume(tmp_path)
    assert len(rest) == WANTED - HALF
    assert set(rest).isdisjoint(first[:HALF])
    assert first[HALF] in rest  # what the killed one was at
    assert resume(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with search(tmp_path, stop_at=2) as process:
        wait_until_begun(process, tmp_path, 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == ("lcplan: interrupted; finished compiles and timings are kept, and the same command resumes")
    assert "Traceback" not in err
    assert all(end_of(pid, 2) for pid, _ in log(tmp_path))
    assert stored(tmp_path) == 1
    assert len(resume(tmp_path)) == WANTED - 1
