"""The program for one borrowed GPU: rows survive whatever happens to a part, and the page shows them."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from one_gpu.card import Card
from one_gpu.child import Child
from one_gpu.kept import Kept
from one_gpu.page import page

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "on_one_gpu.py"
CARD = Card("NVIDIA H200", "dgx-h200", "0.11.2", "gpu")


def child(script: str) -> Child:
    return Child([sys.executable, "-c", script], on_host=True)


def rows_of(found: Child, row_s: float = 20.0) -> list[dict]:
    return list(found.rows(row_s=row_s, until=time.monotonic() + 30))


def test_rows_before_a_crash_are_kept_and_its_words_said():
    found = child('import sys; print("noise"); print("ROW {\\"id\\": 1}", flush=True); sys.exit("Error: no memory left")')
    assert rows_of(found) == [{"id": 1}]
    assert found.words == "Error: no memory left"


def test_a_process_that_ends_well_has_no_words():
    found = child('print("ROW {\\"id\\": 1}\\nROW {\\"id\\": 2}")')
    assert rows_of(found) == [{"id": 1}, {"id": 2}]
    assert found.words == ""


def test_a_row_that_takes_too_long_ends_its_process():
    begun = time.monotonic()
    found = child('import time; print("ROW {\\"id\\": 1}", flush=True); time.sleep(60)')
    assert rows_of(found, row_s=1.5) == [{"id": 1}]
    assert found.words == "no row after 1.5 s"
    assert time.monotonic() - begun < 30


def test_rows_are_on_the_disk_at_once_and_another_cards_file_is_refused(tmp_path):
    path = tmp_path / "deep" / "one.json"
    kept = Kept.open(path, CARD)
    kept.put("rates", {"id": "dgx-h200", "error": "no answer"})
    assert not kept.has("rates", "dgx-h200")
    kept.put("rates", {"id": "dgx-h200", "warnings": []})
    again = Kept.open(path, CARD)
    assert again.has("rates", "dgx-h200")
    assert again.rows == {"rates": {"dgx-h200": {"id": "dgx-h200", "warnings": []}}}
    with pytest.raises(SystemExit, match=r"holds rows of NVIDIA H200 with jax 0\.11\.2; choose another file"):
        Kept.open(path, Card("NVIDIA H100 80GB HBM3", "dgx-h100", "0.11.2", "gpu"))


def side(step_s: float, peak_bytes: int | None) -> dict:
    return {"step_s": step_s, "samples": [step_s], "loss": 11.0, "peak_bytes": peak_bytes, "executable_bytes": peak_bytes}


def test_the_page(tmp_path):
    kept = Kept.open(tmp_path / "one.json", CARD)
    errors = dict.fromkeys(("o", "dq", "dk", "dv"), 0.002)
    kept.put("chunks", {"id": "ring x4", "kernel": "cudnn", "errors": errors, "rounding": errors, "holds": False})
    ratios = {"step_ratio": 0.9, "peak_ratio": 0.75, "executable_ratio": 0.8}
    published = {"published": {"step_s": 0.36, "peak_bytes": 2**34}}
    kept.put("steps", {"id": "l2", "ours": side(0.27, 3 * 2**33), "plain": side(0.3, 2**35), **ratios, **published})
    kept.put(
        "steps", {"id": "l4", "ours": side(0.27, 2**35), "plain": side(0.3, 2**35), **ratios, "peak_ratio": None, **published}
    )
    kept.put(
        "steps", {"id": "l8", "ours": side(0.27, None), "plain": side(0.3, None), **ratios, "peak_ratio": None, **published}
    )
    figure = {"value": 7e14, "kind": "measured", "source": "lcplan calibrate: 5 shapes"}
    kept.put("rates", {"id": "dgx-h200", "seconds": 95.0, "overlay": {"device": {"rates": {"gemm_flop_per_s": figure}}}})
    timed = {"label": "context=8", "modelled_step_s": 1.0, "step_s": 1.25, "rank_s": 1.2, "peak_bytes": 10 * 2**30}
    kept.put("slices", {"id": "64k-1", **timed})
    kept.put("whole", {"id": "64k-1", "step_s": 1.1, "peak_bytes": 40 * 2**30})
    kept.put("memory", {"id": "64k-1", "compiled_bytes": [9 * 2**30, 39 * 2**30], "allowance_bytes": 2**30})
    kept.put("memory", {"id": "64k-3", "compiled_bytes": [9 * 2**30, 39 * 2**30], "allowance_bytes": 2**30})
    kept.put("slices", {"id": "64k-2", "error": "out of memory"})
    shown = page(kept)
    assert shown.startswith("NVIDIA H200, jax 0.11.2\n")
    assert "| ring x4 | cudnn | 2.0e-03 (2.0e-03) |" in shown
    assert "| NO |" in shown
    assert "| l2 | 270 ms | 300 ms | 0.900 | 24.0 GiB | 32.0 GiB | 0.750 | 0.800 | 360 ms, 16.0 GiB |" in shown
    assert "| l4 | 270 ms | 300 ms | 0.900 | 32.0 GiB | 32.0 GiB | 1 or MORE |" in shown
    assert "| l8 | 270 ms | 300 ms | 0.900 | - | - | - |" in shown
    assert "| the whole calibration | 95 s | of three minutes" in shown
    assert "| gemm_flop_per_s | 7e+14 | 5 shapes |" in shown
    assert (
        "| 64k-1 | context=8 | 1 s | 1.25 s | 1.2 s | 1.1 s | 10.0 GiB, 10.0 GiB, 1.000 | 40.0 GiB, 40.0 GiB, 1.000 |" in shown
    )
    assert "| 64k-3 | - | - | - | - | - | 10.0 GiB, -, - | 40.0 GiB, -, - |" in shown
    assert shown.endswith("* slices 64k-2: out of memory")


def test_options_that_are_none():
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "collect", "--parts", "chunk"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no part chunk; there are chunks, rates, steps, slices, whole, memory" in done.stderr


@pytest.mark.slow
def test_the_whole_way_on_host_devices(tmp_path):
    path = tmp_path / "tiny.json"
    command = [sys.executable, str(PROGRAM), "collect", "--tiny", "--data", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "missing or failed: nothing" in done.stdout
    rows = json.loads(path.read_text())["rows"]
    assert all(row["holds"] for row in rows["chunks"])
    assert (
        {row["id"] for row in rows["memory"]} == {row["id"] for row in rows["slices"]} == {row["id"] for row in rows["whole"]}
    )
    assert all(min(row["compiled_bytes"]) > 0 for row in rows["memory"])
    assert all(row["step_ratio"] > 0 and row["executable_ratio"] < 1 for row in rows["steps"])
    assert rows["rates"][0]["overlay"]["base"] == "cpu-host"
    assert 0 < rows["rates"][0]["seconds"] < 180
    begun = time.monotonic()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert time.monotonic() - begun < 60  # nothing was left to do
    shown = subprocess.run(
        [sys.executable, str(PROGRAM), "page", "--data", str(path)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.count("| ring-zigzag x4 ") == 1
