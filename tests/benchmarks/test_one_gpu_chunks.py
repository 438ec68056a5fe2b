"""Chunk sequences on one device, whose ranks are emulated: right on the host, and cuDNN's when compiled for a GPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from one_gpu.chunks import CASES, REAL, TINY, Case, emulated, operands_of, reference, row

FOLDER = Path(__file__).parent
QUICK = [
    Case("all-gather", 4, documents=True),
    Case("ring", 8, window_of_chunk=2.3),
    Case("ulysses", 4, window_of_chunk=0.4),
]
ABSENT = [name for name in ("jax_cuda12_plugin", "nvidia.cudnn") if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id, marks=[] if case in QUICK else [pytest.mark.slow]) for case in CASES]
)
def test_an_emulated_sequence_is_plain_attention(case):
    operands = operands_of(case, TINY)
    window = int(case.window_of_chunk * TINY.tokens / case.ranks) or None
    with jax.default_matmul_precision("highest"):
        found = emulated(case, TINY, kernel="blockwise")(*operands)
    for ours, exact in zip(found, reference(operands, window=window), strict=True):
        assert np.linalg.norm(np.asarray(ours) - exact) / np.linalg.norm(exact) < 1e-5


def test_a_row_says_what_is_wrong(monkeypatch):
    case = Case("ulysses", 4)
    good = row(case, TINY, kernel="blockwise")
    assert good["holds"]
    assert good["errors"] == good["rounding"]
    assert 1e-4 < good["errors"]["dk"] < 1e-2
    monkeypatch.setattr("one_gpu.chunks.reference", lambda operands, window: reference(operands, window=7))
    assert not row(case, TINY, kernel="blockwise")["holds"]


@pytest.mark.gpu_target
@pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")
@pytest.mark.parametrize("cases", [pytest.param(QUICK, id="a few"), pytest.param(CASES, id="all", marks=pytest.mark.slow)])
def test_on_a_gpu_every_call_is_cudnns(cases):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "chunks_on_target.py"), *(case.id for case in cases)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    calls = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert set(calls) == {case.id for case in cases}
    for case in cases:
        assert set(calls[case.id]) == {f"__cudnn$fmha{'ScaleBias' * case.documents}Softmax{back}" for back in ("", "Backward")}


@pytest.mark.gpu
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_gpus_sequences_are_those_of_fp32(case):
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU is here")
    assert row(case, REAL, kernel="cudnn")["holds"]
