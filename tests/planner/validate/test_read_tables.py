import json
from pathlib import Path

import pytest
from made import data, row

from lcplan.formats.errors import BadInputError
from planner.validate.sources.bundled import find_table, table_names
from planner.validate.sources.read import read_table, table_of


def test_defaults_lie_under_every_row_and_null_takes_them_away():
    frame = data({"id": "a", "workload": {"seq_len": 1024}}, {"id": "b", "workload": {"precision": None}, "devices": None})
    table = table_of(frame | {"defaults": {"devices": 8, "workload": {"seq_len": 2048, "precision": "bf16"}}}, "t")
    a, b = table.rows
    assert (a.devices, a.workload.seq_len, a.workload.precision) == (8, 1024, "bf16")
    assert (b.devices, b.workload.seq_len, b.workload.precision) == (None, 2048, None)


def test_a_string_replaces_an_inline_default():
    frame = data({"id": "a", "model": "llama3-8b"}, {"id": "b", "model": {"layers": 2}})
    table = table_of(frame | {"defaults": {"model": {"base": "llama3-8b", "layers": 4}}}, "t")
    assert [r.model for r in table.rows] == ["llama3-8b", {"base": "llama3-8b", "layers": 2}]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "t: not a table"),
        (data(row(sped=1)), "t: row one: unknown key 'sped'"),
        (data(row(mesh={"pip": 2})), "t: row one: unknown key 'strategy.mesh.pip'; did you mean 'pipe'?"),
        (data(row(measured={"step_s": -1.0})), "t: row one: measured.step_s: Input should be greater than 0"),
        (data(row(measured={"step_s": True})), "t: row one: measured.step_s"),
        (data(row(), row()), "t: row one stands twice"),
        (data(row()) | {"pairs": [["one", "two"]]}, "t: pair one, two: no row 'two'"),
        (data(row()) | {"schema_version": 3}, "t: schema_version: Input should be 1 or 2"),
        (data(row()) | {"flop_convention": "half"}, "t: flop_convention"),
        (data(row()) | {"colour": "red"}, "t: unknown key 'colour'"),
        ({"schema_version": 1, "name": "n"}, "t: missing key 'rows'"),
    ],
)
def test_a_wrong_table_says_where(frame, message):
    with pytest.raises(BadInputError) as error:
        table_of(frame, "t")
    assert any(problem.startswith(message) for problem in error.value.problems), error.value.problems


def test_all_rows_are_looked_at_before_it_is_refused():
    with pytest.raises(BadInputError) as error:
        table_of(data(row(id="a", devices=0), row(id="b", devices=-1)), "t")
    assert len(error.value.problems) == 2


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_files_of_both_kinds_read_alike(tmp_path, suffix):
    file = tmp_path / f"mine{suffix}"
    file.write_text(json.dumps(data(row(), pairs=[["one", "one"]])))  # JSON is YAML
    table = read_table(file)
    assert (table.name, table.rows[0].id, table.pairs[0].a) == ("made", "one", "one")


def test_bundled_tables_are_found_by_name_and_others_by_path(tmp_path):
    assert "seed-s1-gb200-nvshmem" in table_names()
    assert find_table("seed-s1-gb200-nvshmem")[0].name == "seed-s1-gb200-nvshmem"
    with pytest.raises(BadInputError, match="unknown table 'seed-s1-gb200'; did you mean 'seed-s1-gb200-nvshmem'"):
        find_table("seed-s1-gb200")
    with pytest.raises(BadInputError, match="No such file"):
        find_table(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize("name", table_names())
def test_a_bundled_table_is_named_after_its_file_and_says_its_source(name):
    table, path = find_table(name)
    assert table.name == Path(path).stem
    assert table.source.title
    assert table.source.where


@pytest.mark.parametrize(("version", "remat"), [(1, "save-except-mlp"), (2, "minimal")])
def test_minimal_was_lcplans_own_in_version_1(version, remat):
    """From version 2 on it is MaxText's, as a source writes it."""
    frame = data(row(strategy={"remat": "minimal"})) | {"schema_version": version}
    [read] = table_of(frame, "t").rows
    assert read.strategy.remat == remat


def test_tensors_are_read_by_their_earlier_names():
    [read] = table_of(data(row(strategy={"remat": ["context", "lse"]})), "t").rows
    assert read.strategy.remat == ("attention_output", "lse")
