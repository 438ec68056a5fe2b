"""Several processes that time one step together, as on several hosts: here two, with four host devices each."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))

from measuring import ring_job

from lcplan.evidence.measurement import Timed
from planner.measure.jobs import Work, time_jobs
from planner.measure.targets.toolchain import probe
from planner.measure.workers.gang import Gang
from planner.measure.workers.pool import PoolLimits
from planner.study.shared import Crew, Shared

WORKER = "import sys; from planner.cli.main import main; main()"


def _address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def _post(shared: Shared, work: Work) -> None:
    shared.queue.post({"key": work.key, "purpose": work.purpose, "job": work.job.model_dump(mode="json")})


def test_two_processes_time_what_one_does(tmp_path: Path) -> None:
    toolchain = probe()
    shared = Shared.open(f"sqlite:///{tmp_path}/study.db", {"model": {"name": "ring"}})
    job = ring_job(data=2, context=4)
    work = Work(job, "time", toolchain=toolchain)
    small = Work(ring_job(context=2), "time", toolchain=toolchain)  # takes two devices, not eight
    for one in (small, work):
        _post(shared, one)
    options = ["--study", shared.url, "--devices-per-process", "4", "--coordinator", _address(), "--num-processes", "2"]
    with ExitStack() as stack:
        both = []
        for rank in ("0", "1"):
            command = [sys.executable, "-c", WORKER, "worker", *options, "--wait", "20", "--process-id", rank]
            both.append(stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
            stack.callback(both[-1].kill)
        said = [worker.communicate(timeout=200)[1] for worker in both]
    assert [worker.returncode for worker in both] == [0, 0], said
    assert said[0].splitlines()[-1] == "1 jobs done; 1 need another toolchain, lcplan or other devices"
    assert said[1].splitlines()[-1] == "1 steps run with process 0"
    assert shared.queue.open_jobs() == {small.key: "WAITING"}
    row = Timed.model_validate(shared.get(work.key))
    ((_, alone),) = time_jobs([job], toolchain=toolchain, pool=PoolLimits(wall_s=120), store=None)
    assert (row.rung, row.error) == (alone.rung, alone.error) == ("timed:full", None)
    assert row.device == f"{alone.device} in 2 processes"
    assert len(row.samples) >= 3
    assert row.loss == pytest.approx(alone.loss, rel=0.05)  # after as many steps as there were samples


def test_a_crew_takes_what_its_devices_can_run(tmp_path: Path) -> None:
    toolchain = probe()
    shared = Shared.open(f"sqlite:///{tmp_path}/study.db", {"model": {"name": "ring"}})
    for purpose in ("compile", "time"):
        _post(shared, Work(ring_job(context=4), purpose, toolchain=toolchain))
    gang = Gang(coordinator="127.0.0.1:1", processes=2, rank=0, devices_per_process=2, platform="cpu")
    crew = Crew(shared, toolchain, gang=gang)
    task = crew._take()
    assert task is not None
    assert task.request["job"]["purpose"] == "time"
    assert dict(task.launch.environment)["XLA_FLAGS"] == "--xla_force_host_platform_device_count=2"
    assert len(crew.foreign) == 1  # the compile is left to others
