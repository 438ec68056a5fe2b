"""Users' files are read safely; files are written whole or not at all."""

import contextlib
import errno
import os
import stat
import time

import pytest

from lcplan.formats import textfile
from lcplan.formats.errors import BadInputError


def refusal(read, path):
    with pytest.raises(BadInputError) as error:
        read(path)
    assert "Traceback" not in str(error.value)
    return str(error.value).replace(f"{path}: ", "")


def test_yaml_reads_plain_values_and_exponents_as_numbers(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\nb: 1.8e12\nc: 2e9\nd: 1.0e-5\ne: text\nf: [1, true, null]\ng: -3E+2\n")
    values = textfile.read_yaml(file)
    assert values == {"a": 1, "b": 1.8e12, "c": 2e9, "d": 1e-5, "e": "text", "f": [1, True, None], "g": -300.0}
    assert isinstance(values["c"], float)


def test_yaml_builds_no_objects(tmp_path):
    file = tmp_path / "evil.yaml"
    file.write_text(f'!!python/object/apply:os.system ["touch {tmp_path}/pwned"]\n')
    assert refusal(textfile.read_yaml, file).startswith("not valid YAML: could not determine a constructor for the tag")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "not valid YAML: key 'a' stands twice"),
        ("a: [1\n", "not valid YAML: while parsing a flow sequence"),
        ("a: &x [*x]\n", "not valid YAML: a value contains itself"),
        ("? [1, 2]\n: 3\n", "not valid YAML: "),
        ("a: 2026-13-45\n", "not valid YAML: month must be in 1..12"),
        ("a: " + "[" * 5000, "not valid YAML: "),
    ],
)
def test_yaml_that_is_refused(tmp_path, text, message):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert refusal(textfile.read_yaml, file).startswith(message)


def test_aliases_that_name_billions_are_refused_at_once(tmp_path):
    lines = ["a0: &a0 [1, 1]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    file = tmp_path / "laughs.yaml"
    file.write_text("\n".join(lines))
    assert refusal(textfile.read_yaml, file) == "above 1000000 values once its aliases are followed"


def test_aliases_within_reason_are_fine(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n")
    assert textfile.read_yaml(file) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "not valid JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        ('{"a": 1, "a": 2}', "not valid JSON: key 'a' stands twice"),
        ("", "not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ("9" * 5000, "not valid JSON: Exceeds the limit (4300 digits) for integer string conversion"),
        ("[" * 100_000, "not valid JSON: maximum recursion depth exceeded"),
    ],
)
def test_json_that_is_refused(tmp_path, text, message):
    file = tmp_path / "a.json"
    file.write_text(text)
    assert refusal(textfile.read_json, file).startswith(message)


def test_a_file_too_big_for_a_spec_is_not_read(tmp_path):
    file = tmp_path / "big.json"
    with file.open("wb") as stream:
        stream.truncate(100 * 2**20)
    assert refusal(textfile.read_json, file) == "above 16 MiB; a file of this size is no spec"


def test_endless_devices_are_not_read():
    assert refusal(textfile.read_text, "/dev/zero") == "above 16 MiB; a file of this size is no spec"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe\x00\x80"), "not a UTF-8 text file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_what_is_no_text_file(tmp_path, make, message):
    path = tmp_path / "a.yaml"
    make(path)
    assert refusal(textfile.read_text, path) == message


def test_a_null_byte_in_a_path_is_bad_input():
    assert refusal(textfile.read_text, "a\0b") == "embedded null byte"


def test_writing_replaces_the_whole_file_and_keeps_its_permissions(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("old")
    file.chmod(0o640)
    textfile.write_text(file, "new ü")
    assert file.read_text(encoding="utf-8") == "new ü"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_a_new_file_can_be_read_by_others(tmp_path):
    textfile.write_text(tmp_path / "new.yaml", "x")
    assert (tmp_path / "new.yaml").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "plan.yaml"
    file.write_text("old")
    if call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(os, "replace", full)
        monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space left on device"):
        textfile.write_text(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def interrupted(_handle):
        raise KeyboardInterrupt

    file = tmp_path / "plan.yaml"
    file.write_text("old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        textfile.write_text(file, "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("plan.yaml", "old")]


def test_a_file_that_is_to_be_new_is_its_first_writers(tmp_path):
    file = tmp_path / "request.json"
    textfile.write_text(file, "first", anew=True)
    with pytest.raises(FileExistsError):
        textfile.write_text(file, "second", anew=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("request.json", "first")]
    assert file.stat().st_nlink == 1


def test_without_hard_links_a_new_file_is_renamed(tmp_path, monkeypatch):
    def unsupported(*_args, **_kwargs):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", unsupported)
    textfile.write_text(tmp_path / "request.json", "first", anew=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("request.json", "first")]


def test_yaml_written_reads_back(tmp_path):
    data = {"b": [1, 2.5, None, True], "a": {"text": "yes", "long": "x" * 300, "number": "1e9", "ü": "1.5E-3"}}
    textfile.write_yaml(tmp_path / "a.yaml", data)
    assert textfile.read_yaml(tmp_path / "a.yaml") == data
    assert (tmp_path / "a.yaml").read_text().startswith("b:")


def test_many_equal_keys_of_json_are_refused_at_once(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("{" + ",".join(f'"k{n}":1' for n in range(50_000)) + ',"k49999":2}')
    begun = time.monotonic()
    with pytest.raises(BadInputError, match="'k49999' stands twice"):
        textfile.read_json(file)
    assert time.monotonic() - begun < 5


def test_a_long_list_is_refused_before_it_is_built(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("[" + "1," * 500_000 + "1]")
    with pytest.raises(BadInputError, match="above 400000 values"):
        textfile.read_yaml(file)


def test_merges_of_merges_end(tmp_path):
    file = tmp_path / "a.yaml"
    lines = ["a0: &a0 {k0: 1, k1: 1, k2: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    file.write_text("\n".join(lines))
    begun = time.monotonic()
    with contextlib.suppress(BadInputError):
        textfile.read_yaml(file)
    assert time.monotonic() - begun < 5


def test_a_link_stays_a_link_and_its_file_is_written(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    textfile.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        textfile.write_text(tmp_path / "pipe", "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_temporary_files_of_killed_processes_go_after_a_day(tmp_path):
    old, young, other = (tmp_path / name for name in (".plan.yaml.abcd1234", ".plan.yaml.abcd5678", ".plan.yaml.swp"))
    for file in (old, young, other):
        file.write_text("half")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    textfile.write_text(tmp_path / "plan.yaml", "whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".plan.yaml.abcd5678", ".plan.yaml.swp", "plan.yaml"]
