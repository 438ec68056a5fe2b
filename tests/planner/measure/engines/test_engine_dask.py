"""The Dask engine with a real scheduler and workers: kills lose nothing, and the same job runs once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

pytest.importorskip("distributed")

from planner.cli.main import run
from planner.study import Store

JOB = ["--model", "llama-tiny", "--seq", "256", "--hw", "cpu-host", "--devices", "2", "--stages", "compiled"]
QUIET = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
LCPLAN = [sys.executable, "-c", "from planner.cli.main import main; main()"]


def _dask(*words):
    code = "from distributed.cli import dask_scheduler, dask_worker; import sys; " + (
        "dask_scheduler.main()" if words[0] == "scheduler" else "dask_worker.main()"
    )
    return [sys.executable, "-c", code, *words[1:]]


class Cluster:
    """A scheduler and its workers, each a process of its own."""

    def __init__(self, stack, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.stack, self.folder = stack, folder
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port), *QUIET)

    def worker(self):
        """Start a worker with one place for a compile."""
        address = f"tcp://127.0.0.1:{self.port}"
        options = ["--nworkers", "1", "--nthreads", "1", *QUIET, "--resources", "compile=1"]
        return self._start("worker", address, *options, "--preload", "planner.measure.engines.preload")

    def _start(self, *words):
        log = self.stack.enter_context((self.folder / f"{words[0]}-{time.monotonic_ns()}.log").open("w"))
        process = subprocess.Popen(_dask(*words), stdout=log, stderr=log, cwd=self.folder, start_new_session=True)
        self.stack.callback(process.wait)
        self.stack.callback(lambda: _kill(process))
        return process


def _kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path):
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


def _search(cluster, folder, *options):
    command = [*LCPLAN, "search", *JOB, "--engine", f"dask://127.0.0.1:{cluster.port}", "--format", "json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def _wait_for(there, seconds):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.2)


def _rows(file):
    return len(Store.open(f"sqlite:///{file}").results) if file.exists() else 0


def test_a_killed_worker_costs_only_what_it_was_compiling(cluster, tmp_path):
    first, _ = cluster.worker(), cluster.worker()
    study = tmp_path / "s.db"
    search = _search(cluster, tmp_path, "--survivors", "4", "--out", "a", "--study", str(study))
    _wait_for(lambda: _rows(study) >= 1, 300)
    _kill(first)
    out, err = search.communicate(timeout=400)
    assert search.returncode == 0, err
    candidates = json.loads(out)["candidates"]
    assert sum(bool(one["compiled"] and one["compiled"]["fits"]) for one in candidates) == 4
    keys = [trial.user_attrs["key"] for trial in Store.open(f"sqlite:///{study}")._study.trials]
    assert len(keys) == len(set(keys))  # each compile is stored once


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_search_which_resumes(cluster, tmp_path):
    cluster.worker()
    study = tmp_path / "s.db"
    search = _search(cluster, tmp_path, "--survivors", "3", "--out", "a", "--study", str(study))
    _wait_for(lambda: _rows(study) >= 1, 300)
    _kill(cluster.scheduler)
    _, err = search.communicate(timeout=300)
    assert search.returncode == 3
    assert "the Dask scheduler is gone; finished compiles and timings are kept" in err
    assert "Traceback" not in err
    assert _rows(study) >= 1


def test_no_scheduler_and_no_worker_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planner.measure.engines.dask_engine.CONNECT_S", 1)
    assert run(["search", *JOB, "--engine", "dask://127.0.0.1:9", "--out", "a"]) == 3
    assert "no scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_cluster_of_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["search", *JOB, "--engine", "dask:1", "--survivors", "1", "--out", "a", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["winner"]["compiled"]["fits"]
