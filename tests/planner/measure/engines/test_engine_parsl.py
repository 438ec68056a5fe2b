"""The Parsl engine with blocks of this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("parsl")

from planner.cli.main import run

JOB = ["--model", "llama-tiny", "--seq", "256", "--hw", "cpu-host", "--devices", "2", "--stages", "compiled"]
SITE = """
import parsl
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

config = parsl.Config(
    executors=[HighThroughputExecutor(label="compile", address="127.0.0.1", max_workers_per_node=1, provider=LocalProvider())],
    retries=2,
    run_dir="parsl",
)
"""


def test_a_search_on_blocks_that_it_starts_itself(tmp_path):
    (tmp_path / "site.py").write_text(SITE)
    options = ["--engine", "parsl:site.py", "--survivors", "1", "--out", "a", "--format", "json"]
    command = [sys.executable, "-c", "from planner.cli.main import main; main()", "search", *JOB, *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["winner"]["compiled"]["fits"]


@pytest.mark.parametrize(("text", "words"), [("x = 1", "no parsl.Config named config"), ("1/0", "ZeroDivisionError")])
def test_a_file_that_is_no_configuration(tmp_path, monkeypatch, capsys, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.py").write_text(text)
    assert run(["search", *JOB, "--engine", "parsl:site.py", "--out", "a"]) == 2
    assert words in capsys.readouterr().err
