"""A full disk, a folder that cannot be written, a damaged study, a second search beside: one clear line each."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from planner.study import Store

SMALL = Path(__file__).with_name("small_steps.py")
MODELLED = ("search", "--model", "llama-tiny", "--seq", "1k", "--hw", "cpu-host", "--devices", "2", "--stages", "modelled")
COMPILED = (*MODELLED[:-1], "compiled", "--global-batch", "2", "--mesh", "context=2", "--jobs", "1", "--out", "run")


def small(folder: Path, program: str = "counts") -> subprocess.Popen[str]:
    """A search that compiles the small program; its log of compiles is ``log`` in ``folder``."""
    command = [sys.executable, str(SMALL), program, *COMPILED, "--survivors", "2", "--format", "json"]
    environment = {**os.environ, "ODD_LOG_FILE": str(folder / "log")}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_disk_that_is_full_when_the_plan_is_written(lcplan, monkeypatch):
    assert lcplan(*MODELLED, "--out", "run").code == 0
    before = {file.name: file.read_bytes() for file in Path("run").iterdir()}

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    answer = lcplan(*MODELLED, "--out", "run")
    assert answer.code == 3
    assert answer.err.splitlines()[-1] == "lcplan: run: No space left on device; finished compiles are in the study"
    assert {file.name: file.read_bytes() for file in Path("run").iterdir()} == before  # no half file, nothing lost


def test_a_folder_that_cannot_be_written(lcplan, monkeypatch):
    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.mkstemp", read_only)
    answer = lcplan(*MODELLED, "--out", "run")
    assert answer.code == 3
    assert answer.err.splitlines()[-1] == "lcplan: run: Read-only file system; choose another folder with --out"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(lcplan):
    Path("run").mkdir(mode=0o555)
    answer = lcplan(*MODELLED, "--out", "run")
    assert answer.code == 3
    assert "Permission denied; choose another folder with --out" in answer.err


def test_a_study_that_is_damaged(lcplan):
    assert lcplan(*MODELLED, "--out", "run").code == 0
    Path("run/study.db").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    answer = lcplan(*(word if word != "modelled" else "compiled" for word in MODELLED), "--out", "run")
    assert answer.code == 3
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert line.startswith("lcplan: study sqlite:///")
    assert "damaged; move it away or choose another folder" in line


def test_a_disk_that_fills_up_under_the_study(tmp_path):
    with small(tmp_path) as whole:
        _, err = whole.communicate(timeout=200)
    assert whole.returncode == 0, err
    kept = len(Store.open(f"sqlite:///{tmp_path}/run/study.db").results)
    limit = (tmp_path / "run/study.db").stat().st_size
    command = [sys.executable, str(SMALL), "counts", *COMPILED, "--survivors", "40"]
    environment = {**os.environ, "ODD_LOG_FILE": str(tmp_path / "log"), "PYTHONWARNINGS": "", "ODD_LARGEST_FILE": str(limit)}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 3
    assert "may be full; the study keeps its results" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert len(Store.open(f"sqlite:///{tmp_path}/run/study.db").results) >= kept


@pytest.mark.parametrize("program", ["aborts", "is_not_there"])
def test_compiles_that_all_go_wrong_are_rows_and_a_failed_stage(tmp_path, program):
    with small(tmp_path, program) as search:
        out, err = search.communicate(timeout=200)
    assert search.returncode == 3
    assert "every compile failed, the first with: " in err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["winner"] is None
    assert len(document["candidates"]) == 6  # three tries a survivor
    assert all(candidate["compiled"]["error"] for candidate in document["candidates"])


def test_two_whole_searches_in_one_folder(tmp_path):
    with ExitStack() as stack:
        both = [stack.enter_context(small(tmp_path)) for _ in range(2)]
        said = [search.communicate(timeout=300) for search in both]
    assert [search.returncode for search in both] == [0, 0], said
    first, second = (json.loads(out) for out, _ in said)
    strategies = [[c["strategy"] for c in document["candidates"]] for document in (first, second)]
    assert len(strategies[0]) == 2
    assert strategies[0] == strategies[1]
    with small(tmp_path) as third:
        out, _ = third.communicate(timeout=100)
    log = (tmp_path / "log").read_text().splitlines()
    assert 2 <= len(log) <= 4  # what both found missing in the same moment both compiled; the third compiled nothing
    assert json.loads(out)["winner"]["compiled"] in [
        c["compiled"] for document in (first, second) for c in document["candidates"]
    ]
    assert (tmp_path / "run/plan.yaml").exists()
