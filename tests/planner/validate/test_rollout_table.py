"""The seed's sampling table, with lcplan's own program: seconds within 10 per cent, and the variants in its order."""

import pytest

from lcplan.formats.textfile import read_yaml
from planner.validate.run import validate
from planner.validate.sources.bundled import find_table
from planner.validate.sources.read import table_of


@pytest.fixture(scope="module")
def result():
    table, path = find_table("seed-s3-lmpo")
    return validate(table, path.parent)


def test_every_row_is_modelled_and_within_its_bar(result):
    assert result.modelled == len(result.rows) == 13
    for row in result.rows:
        for quantity, error in row.error_ratio.items():
            assert abs(error) < {"step_s": 0.10, "peak_bytes": 0.02}[quantity], row.id


def test_no_row_has_a_program_of_its_own():
    table, _ = find_table("seed-s3-lmpo")
    assert all(row.program is None for row in table.rows)


def test_variants_come_in_the_order_measured(result):
    per_sequence = {row.id: row.predicted["step_s"] / int(row.id.rpartition("-")[2]) for row in result.rows[:10]}
    measured = {row.id: row.measured["step_s"] / int(row.id.rpartition("-")[2]) for row in result.rows[:10]}
    assert sorted(per_sequence, key=per_sequence.get) == sorted(measured, key=measured.get)


def test_ratios_of_pairs_within_twenty_per_cent(result):
    assert len(result.pairs) == 6
    for pair in result.pairs:
        assert pair.predicted_ratio == pytest.approx(pair.measured_ratio, rel=0.20), (pair.a, pair.b)


def test_a_rollout_without_its_prompt_says_so():
    row = {
        "id": "a",
        "model": "qwen3-1.7b",
        "hardware": "tpu-v4-32",
        "devices": 16,
        "workload": {"kind": "sample", "generate": 8},
    }
    table = table_of({"schema_version": 1, "name": "t", "source": {"title": "t", "where": "w"}, "rows": [row]}, "t.yaml")
    _, path = find_table("seed-s3-lmpo")
    assert "no prompt or no generate is stated" in validate(table, path.parent).rows[0].why


def test_the_seeds_training_program_runs_out_of_memory_where_it_did():
    table, path = find_table("seed-s3-lmpo-training")
    rows = validate(table, path.parent).rows
    assert {row.id: row.predicted["fits"] for row in rows} == {row.id: row.measured["fits"] for row in rows}
    assert not all(row.measured["fits"] for row in rows)
    errors = {row.id: row.error_ratio["peak_bytes"] for row in rows if "peak_bytes" in row.error_ratio}
    assert errors.keys() == {"naive-64", "flash-64", "remat-256"}
    # The source reads memory_analysis(), which holds a TPU's fragmentation twice (planner.measure.hlo.libtpu_memory).
    assert 0 < errors["naive-64"] < 0.07
    assert -0.14 < errors["flash-64"] < 0
    assert -0.27 < errors["remat-256"] < 0


def test_what_the_source_saw_lies_between_logits_in_chunks_and_whole():
    """Chunks are read into the source, which does not say: the other extreme is whole logits in fp32."""
    _, path = find_table("seed-s3-lmpo-training")
    data = read_yaml(path)
    for program in (data["defaults"]["program"], *(row["program"] for row in data["rows"] if "program" in row)):
        program["loss"] = "whole"
    whole = {row.id: row for row in validate(table_of(data, "whole.yaml"), path.parent).rows}
    chunked = {row.id: row for row in validate(*_table("seed-s3-lmpo-training")).rows}
    for name in ("naive-64", "flash-64", "remat-256"):
        measured = chunked[name].measured["peak_bytes"]
        assert chunked[name].predicted["peak_bytes"] < 1.07 * measured
        assert measured < 1.05 * whole[name].predicted["peak_bytes"]
    assert whole["remat-256"].predicted["peak_bytes"] > 2 * chunked["remat-256"].measured["peak_bytes"]


def _table(name):
    table, path = find_table(name)
    return table, path.parent
