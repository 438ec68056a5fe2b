import json

import pytest

TABLE = """
schema_version: 1
name: mine
source: {title: My runs, where: here}
flop_convention: model
defaults: {model: llama3-8b, hardware: dgx-h100, workload: {seq_len: 8192, global_batch: 8, precision: bf16}}
rows:
  - {id: a, devices: 8, strategy: {mesh: {fsdp: 8}, remat: full, backend: nccl}, measured: {step_s: 1.2}}
  - {id: b, devices: 8, strategy: {mesh: {fsdp: 4, pipe: 2}, remat: full, backend: nccl}, measured: {step_s: 1.4}}
pairs: [[a, b]]
"""


@pytest.fixture
def mine(lcplan, tmp_path):
    (tmp_path / "mine.yaml").write_text(TABLE)
    return lambda *options: lcplan("validate", "--table", "mine.yaml", *options)


def test_the_document_has_the_shape_that_scripts_rely_on(mine):
    answer = mine("--format", "json")
    assert answer.code == 0
    assert list(answer.json) == ["schema_version", "tables"]
    (table,) = answer.json["tables"]
    assert {"name", "source", "rows", "pairs", "summary", "fitted_constants"} <= set(table)
    first, second = table["rows"]
    keys = {"id", "status", "why", "chosen", "measured", "predicted", "error_ratio", "verdict", "contradicted_by"}
    keys |= {"half_width_ratio", "covered"}
    assert set(first) == keys
    assert (first["status"], first["why"]) == ("modelled", None)
    assert first["error_ratio"]["step_s"] == pytest.approx(first["predicted"]["step_s"] / 1.2 - 1)
    assert (second["status"], second["why"]) == ("not modelled", "pipeline axis: pipe=2")
    assert second["predicted"] == {}
    assert table["pairs"] == [
        {"a": "a", "b": "b", "quantity": "step_s", "measured_ratio": pytest.approx(1.2 / 1.4), "predicted_ratio": None}
    ]
    assert table["not_modelled"] == {"pipeline axis": 1}
    assert table["summary"]["step_s"]["rows"] == 1


def test_one_table_shows_its_rows(mine):
    answer = mine()
    assert answer.code == 0
    assert "My runs (here)" in answer.out
    assert "pipeline axis: pipe=2" in answer.out
    assert "1 of 2 rows modelled" in answer.out


def test_csv_has_a_line_for_each_measured_quantity(mine):
    lines = mine("--format", "csv").out.splitlines()
    assert lines[0] == "table,row,status,quantity,measured,predicted,error_ratio,why"
    assert [line.split(",")[1] for line in lines[1:]] == ["a", "b"]


def test_several_tables_are_summed_up(lcplan, tmp_path):
    (tmp_path / "mine.yaml").write_text(TABLE)
    answer = lcplan("validate", "--table", "mine.yaml", "--table", "seed-s1-gb200-nvshmem")
    assert answer.code == 0
    assert "seed-s1-gb200-nvshmem" in answer.out
    assert "17 of 18 rows modelled" in answer.out


def test_bad_input_is_told_once_without_a_traceback(lcplan, tmp_path):
    (tmp_path / "broken.yaml").write_text(TABLE.replace("remat: full", "remat: ful"))
    answer = lcplan("validate", "--table", "broken.yaml", "--table", "nope")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("unknown remat policy 'ful'; did you mean 'full'?") == 1  # the other row is excused before
    assert "unknown table 'nope'" in answer.err
    assert "Traceback" not in answer.err


def test_a_page_is_of_all_tables(lcplan, tmp_path):
    answer = lcplan("validate", "--page", "page.md", "--table", "seed-s1-gb200-nvshmem")
    assert (answer.code, answer.out) == (2, "")
    answer = lcplan("validate", "--page", str(tmp_path / "absent" / "page.md"))
    assert answer.code == 2
    assert "No such file" in answer.err


def test_json_has_no_infinity(mine):
    json.loads(mine("--format", "json").out, parse_constant=pytest.fail)
