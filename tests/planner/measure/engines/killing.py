"""Searches whose processes are killed: engines with their schedulers and workers, and what the study and the log then hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import psutil

from planner.study import Store

LCPLAN = [sys.executable, "-c", "from planner.cli.main import main; main()"]
SURVIVORS = 6
SECONDS = 0.4
SITE = """
import parsl
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

config = parsl.Config(
    executors=[HighThroughputExecutor(
        label="compile", address="127.0.0.1", max_workers_per_node=1, heartbeat_period=2, heartbeat_threshold=6,
        provider=LocalProvider(init_blocks=2, min_blocks=2, max_blocks=2),
    )],
    retries=3,
    run_dir="parsl",
    strategy_period=1,
)
"""
DASK = "import sys; from distributed.cli import dask_{0}; sys.argv[0] = 'dask-{0}'; dask_{0}.main()"
QUIET = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Trial:
    """One search with one kill. ``seq`` gives it keys of its own in a study that many trials share."""

    def __init__(self, folder, stub, *, engine, url, seq, database=None):
        self.folder, self.engine, self.url, self.database = folder, engine, url, database
        self.log = folder / f"log-{engine}-{seq}"
        self.log.touch()
        self.environment = {
            **os.environ, "STUB_LOG": str(self.log), "STUB_SECONDS": str(SECONDS), "LCPLAN_TOOLCHAIN": str(stub),
            "LCPLAN_STUDY": url,
        }  # fmt: skip
        self.children, self.port, self.runs = [], free_port(), 0
        job = ["--model", "llama-tiny", "--seq", str(seq), "--hw", "cpu-host", "--devices", "4", "--stages", "compiled"]
        options = ["--survivors", str(SURVIVORS), "--toolchain", str(stub), "--out", f"run-{engine}-{seq}"]
        self.command = [*LCPLAN, "search", *job, *options, "--format", "json", "--engine", self._word()]

    def _word(self):
        (self.folder / "site.py").write_text(SITE)
        words = {"dask": f"dask://127.0.0.1:{self.port}", "parsl": "parsl:site.py", "processes": "processes:4"}
        return words.get(self.engine, self.engine)

    def start_engine(self):
        """Start scheduler and workers where the engine has its own."""
        if self.engine == "dask":
            self.scheduler = self._start([sys.executable, "-c", DASK.format("scheduler"), "--host", "127.0.0.1",
                                          "--port", str(self.port), *QUIET])  # fmt: skip
            self.workers = [self._dask_worker(), self._dask_worker()]

    def _dask_worker(self):
        options = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", *QUIET, "--resources", "compile=1"]
        return self._start([sys.executable, "-c", DASK.format("worker"), f"tcp://127.0.0.1:{self.port}", *options])

    def _start(self, command, **more):
        number = len(self.children)
        with (self.folder / f"out-{number}").open("w") as out, (self.folder / f"err-{number}").open("w") as err:
            environment = {**self.environment, **more}
            child = subprocess.Popen(command, stdout=out, stderr=err, cwd=self.folder, env=environment, start_new_session=True)
        self.children.append(child)
        return child

    def start_search(self):
        """Start the search; for several processes, each of them."""
        self.runs += 1
        self.log.with_suffix(".closed").unlink(missing_ok=True)
        ranks = 2 if self.engine == "processes" else 1
        coordinator = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}", "JAX_NUM_PROCESSES": "2"}
        self.search = []
        for rank in range(ranks):
            more = {**coordinator, "JAX_PROCESS_ID": str(rank)} if ranks > 1 else {}
            self.search.append(self._start(self.command, **more))
        self.place = len(self.children) - ranks

    def victims(self):
        """Kinds of processes that this engine has."""
        found = ["compile", "search"]
        found += {"local": [], "processes": ["follower"]}.get(self.engine, ["worker", "scheduler"])
        return found + (["database"] if self.database else [])

    def kill(self, kind):
        """Kill one process of a kind, with SIGKILL; restart what a cluster's manager restarts."""
        if kind == "database":
            self.database.kill()
            time.sleep(1)
            self.database.start()
        elif kind in ("search", "follower"):
            for process in self.search if self.engine == "processes" else self.search[:1]:  # srun ends all with one
                self._kill_all(process)
        elif kind == "scheduler" and self.engine == "dask":
            self._kill_all(self.scheduler)
        elif kind == "worker" and self.engine == "dask":
            self._kill_all(self.workers[0])
            self.workers[0] = self._dask_worker()
        else:
            names = {"worker": "process_worker_pool", "scheduler": "interchange", "compile": "boot.py"}
            self._kill_one(names[kind])

    def _kill_all(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _kill_one(self, name):
        mine = [psutil.Process(child.pid) for child in self.children if child.poll() is None]
        found = []
        for process in mine:
            with contextlib.suppress(psutil.Error):
                found += [one for one in (process, *process.children(recursive=True)) if name in " ".join(one.cmdline())]
        if found:
            with contextlib.suppress(psutil.Error):
                found[-1].kill()

    def finish(self, kind):
        """Wait for the search, and repeat the command where it ended early; return how often it ran."""
        for _ in range(4):
            codes = [process.wait(timeout=300) for process in self.search]
            if codes[0] == 0:
                return self.runs
            if kind == "scheduler" and self.engine == "dask":
                for worker in self.workers:
                    self._kill_all(worker)
                self.start_engine()
            self.start_search()
        raise AssertionError(f"the search never ended well: {self.said()}")

    def said(self):
        """The end of the search's messages."""
        return (self.folder / f"err-{self.place}").read_text()[-2000:]

    def stored(self):
        """Results by key."""
        with closing(Store.open(self.url)) as store:
            return dict(store.results)

    def starts(self):
        """Starts of each key."""
        found = {}
        for line in self.log.read_text().splitlines():
            word, _, key = line.split()
            if word == "start":
                found[key] = found.get(key, 0) + 1
        return found

    def close(self):
        """End everything."""
        for child in self.children:
            for process in [child.pid]:
                with contextlib.suppress(psutil.Error):
                    for one in psutil.Process(process).children(recursive=True):
                        with contextlib.suppress(psutil.Error):
                            one.kill()
            self._kill_all(child)


def run_trial(trial, kind, moment):
    """Kill one process ``moment`` seconds after the first compile began, and check that nothing else was lost."""
    trial.start_engine()
    trial.start_search()
    end = time.monotonic() + 200
    while not trial.log.stat().st_size and time.monotonic() < end:
        assert trial.search[0].poll() is None, trial.said()
        time.sleep(0.05)
    time.sleep(moment)
    before, begun = trial.stored(), trial.starts()
    ended = trial.search[0].poll() is not None
    trial.kill(kind)
    runs = trial.finish(kind)
    after, starts = trial.stored(), trial.starts()
    candidates = json.loads((trial.folder / f"out-{trial.place}").read_text())["candidates"]
    fitting = [one for one in candidates if one["compiled"] and one["compiled"]["fits"]]
    assert len(fitting) == SURVIVORS, f"{kind}: {len(fitting)} compiles"
    assert {key: after[key] for key in before} == before, f"{kind}: a stored result changed"
    again = {key: count - begun.get(key, 0) for key, count in starts.items() if begun.get(key)}
    assert not [key for key in before if again.get(key)], f"{kind}: a stored compile ran again"
    assert sum(again.values()) <= 3, f"{kind}: {again} ran again"  # two at a time, and one whose answer was on its way
    if kind in ("compile", "worker", "database") and not ended:
        assert runs == 1, f"{kind}: the search ended: {trial.said()}"
    return {"kind": kind, "runs": runs, "again": sum(again.values()), "stored": len(before.keys() & starts.keys())}
