"""The memory model of pipelined steps against the targets' compilers (``python benchmarks/compile_grid.py --pipelines``)."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_compiled_steps import named, priced

ROWS = json.loads((Path(__file__).parent / "data" / "compiled_pipelines.json").read_text())["rows"]
WORST, MEAN = 0.10, 0.02


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_total_and_state_of_a_compiled_step(row):
    found = priced(row)
    memory = found["memory_bytes"]
    state = memory["params"] + memory["optimizer"] + memory["batch"]
    assert state == pytest.approx(row["argument_bytes"], rel=0.01)
    assert memory["total"] == pytest.approx(row["total_bytes"], rel=WORST)
    if row["strategy"].get("remat", "").startswith("offload"):
        assert found["host_bytes"] == row["host_temp_bytes"]


def test_mean_error_and_targets():
    errors = np.array([priced(row)["memory_bytes"]["total"] / row["total_bytes"] - 1 for row in ROWS])
    assert len(errors) >= 20
    assert np.abs(errors).mean() <= MEAN
    assert {"gb200-nvl72", "dgx-h100x4", "tpu-v5p-64"} <= {row["hardware"] for row in ROWS}


def test_neither_program_nor_model_grows_with_the_microbatches():
    """Beyond the ids of the tokens: eight bytes each on every device."""
    base = {"pipe": 4, "context": 4, "tensor": 2}
    alike = {
        row["strategy"]["microbatches"]: row
        for row in ROWS
        if row["hardware"] == "gb200-nvl72" and {**row["strategy"], "microbatches": 0} == {"mesh": base, "microbatches": 0}
        if "document_len" not in row
    }
    assert {8, 16, 32} <= set(alike)
    ids = {count: 8 * row["seq_len"] // 4 * count for count, row in alike.items()}
    for total in (lambda row: row["total_bytes"], lambda row: priced(row)["memory_bytes"]["total"]):
        sizes = [total(alike[count]) - ids[count] for count in (8, 16, 32)]
        assert max(sizes) - min(sizes) < 2**20
