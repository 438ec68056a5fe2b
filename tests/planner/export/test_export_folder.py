"""The folder of an export: what lcplan wrote it may write again, nothing else."""

import errno
import json
import os

import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.export.folder import MANIFEST, write_export

FILES = {"a.yml": "x: 1\n", "launch.sh": "#!/bin/sh\n"}


def test_files_are_written_and_scripts_are_executable(tmp_path):
    paths = write_export(tmp_path / "new" / "folder", FILES)
    assert [path.read_text() for path in paths] == list(FILES.values())
    assert paths[1].stat().st_mode & 0o111
    assert set(json.loads((tmp_path / "new" / "folder" / MANIFEST).read_text())["files"]) == set(FILES)


def test_own_files_are_written_again(tmp_path):
    write_export(tmp_path, FILES)
    write_export(tmp_path, {**FILES, "a.yml": "x: 2\n"})
    assert (tmp_path / "a.yml").read_text() == "x: 2\n"


def test_a_file_of_someone_else_is_left_alone_and_nothing_is_written(tmp_path):
    (tmp_path / "launch.sh").write_text("mine\n")
    with pytest.raises(BadInputError, match=r"launch.sh is there and was not written by lcplan"):
        write_export(tmp_path, FILES)
    assert (tmp_path / "launch.sh").read_text() == "mine\n"
    assert not (tmp_path / "a.yml").exists()


def test_a_changed_file_is_left_alone(tmp_path):
    write_export(tmp_path, FILES)
    (tmp_path / "a.yml").write_text("x: 3 # tuned by hand\n")
    with pytest.raises(BadInputError, match=r"a.yml was changed since lcplan wrote it"):
        write_export(tmp_path, {**FILES, "a.yml": "x: 2\n"})
    assert (tmp_path / "a.yml").read_text() == "x: 3 # tuned by hand\n"


def test_an_equal_file_of_someone_else_is_no_conflict(tmp_path):
    (tmp_path / "a.yml").write_text(FILES["a.yml"])
    write_export(tmp_path, FILES)
    assert (tmp_path / "launch.sh").exists()


def test_two_trainers_share_a_folder(tmp_path):
    write_export(tmp_path, {"a.yml": "1\n"})
    write_export(tmp_path, {"b.yml": "2\n"})
    write_export(tmp_path, {"a.yml": "3\n"})
    assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == {"a.yml", "b.yml"}


def test_a_broken_manifest_is_bad_input(tmp_path):
    (tmp_path / MANIFEST).write_text("[]")
    with pytest.raises(BadInputError, match=r"is not lcplan.s list of written files"):
        write_export(tmp_path, FILES)


def test_a_folder_that_is_a_file_is_a_failed_stage(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StageFailedError, match="choose another folder with --out"):
        write_export(tmp_path / "taken", FILES)


@pytest.mark.parametrize("filled", range(3))
def test_a_disk_that_fills_up_leaves_the_export_before(tmp_path, monkeypatch, filled):
    write_export(tmp_path, FILES)
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    synced = []

    def full(_handle):
        synced.append(1)
        if len(synced) > filled:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StageFailedError, match="No space left"):
        write_export(tmp_path, {name: f"{text}# next\n" for name, text in FILES.items()})
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
