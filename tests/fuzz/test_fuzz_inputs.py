"""Damaged files and options never end in a traceback or a fault of lcplan itself, and are answered in time.

CI runs a few hundred inputs; ``-m slow`` runs ten thousand. Hypothesis keeps the inputs that failed and tries them first.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from documents import (
    ACCELERATE,
    DEEPSPEED,
    HARDWARE,
    MAXTEXT,
    MEGATRON,
    MODEL,
    NASTY,
    OWN_MODEL,
    TABLE,
    TORCHTITAN,
    as_json,
    as_yaml,
    damaged,
    damaged_text,
)

from planner.cli.main import run

SECONDS = 10.0
JOB = ("--seq", "8k", "--hw", "dgx-h100", "--global-batch", "8")
ON = ("--hw", "dgx-h100")
FILES = {
    "config.json": (damaged(MODEL).map(as_json), lambda file: ("estimate", "--model", file, *JOB, "--mesh", "fsdp=8")),
    "model.yaml": (damaged(OWN_MODEL).map(as_yaml), lambda file: ("estimate", "--model", file, *JOB, "--mesh", "fsdp=8")),
    "hardware.yaml": (
        damaged(HARDWARE).map(as_yaml),
        lambda file: ("estimate", "--model", "llama-tiny", "--seq", "8k", "--hw", file, "--devices", "8", "--mesh", "fsdp=8"),
    ),
    "table.yaml": (damaged(TABLE).map(as_yaml), lambda file: ("validate", "--table", file)),
    "maxtext.yml": (damaged(MAXTEXT).map(as_yaml), lambda file: ("estimate", "--from-maxtext", file, *ON)),
    "torchtitan.toml": (damaged_text(TORCHTITAN), lambda file: ("estimate", "--from-torchtitan", file, *ON)),
    "megatron.sh": (damaged_text(MEGATRON), lambda file: ("estimate", "--from-megatron", file, *ON, "--devices", "8")),
    "deepspeed.json": (
        damaged(DEEPSPEED).map(as_json),
        lambda file: ("estimate", "--from-deepspeed", file, "--model", "llama3-8b", *JOB),
    ),
    "accelerate.yaml": (
        damaged(ACCELERATE).map(as_yaml),
        lambda file: ("estimate", "--from-accelerate", file, "--model", "llama3-8b", *JOB),
    ),
}
OPTIONS = ("--seq", "--mesh", "--devices", "--global-batch", "--budget", "--remat", "--scheme", "--microbatches", "--price")
WORDS = st.one_of(
    NASTY.map(str), st.sampled_from(["context=1..99", "fsdp=8,fsdp=8", "=", "context=0", "80GiB", "-1k", "1..", ""])
)


def _check(arguments, capsys):
    begun = time.monotonic()
    code = run([*map(str, arguments)])
    seconds = time.monotonic() - begun
    said = capsys.readouterr()
    assert "a fault of lcplan" not in said.err, said.err
    assert code in (0, 1, 2, 3), code
    assert "\x1b" not in said.err
    assert seconds < SECONDS * float(os.environ.get("LCPLAN_SLOWNESS", "3")), f"{seconds:.1f} s"


def _settings(count):
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, deadline=None, suppress_health_check=quiet, print_blob=True)


def _files(data, tmp_path, capsys):
    name = data.draw(st.sampled_from(sorted(FILES)))
    text, command = FILES[name]
    file = tmp_path / name
    file.write_text(data.draw(text), encoding="utf-8", errors="surrogatepass")
    _check(command(file), capsys)


def _options(data, capsys):
    command = data.draw(st.sampled_from(["estimate", "search"]))
    given_options = data.draw(st.dictionaries(st.sampled_from(OPTIONS), WORDS, min_size=1, max_size=3))
    words = [word for pair in given_options.items() for word in pair if not (pair[0] == "--price" and command == "estimate")]
    base = ["--model", "llama-tiny", "--hw", "dgx-h100"] + ([] if "--seq" in given_options else ["--seq", "8k"])
    last = ["--stages", "modelled"] if command == "search" else []
    _check([command, *base, *words, *last], capsys)


@given(data=st.data())
@_settings(150)
def test_damaged_files(data, tmp_path, capsys):
    _files(data, tmp_path, capsys)


@given(data=st.data())
@_settings(60)
def test_odd_options(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _options(data, capsys)


@pytest.mark.slow
@given(data=st.data())
@_settings(8000)
def test_many_damaged_files(data, tmp_path, capsys):
    _files(data, tmp_path, capsys)


@pytest.mark.slow
@given(data=st.data())
@_settings(2000)
def test_many_odd_options(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _options(data, capsys)
