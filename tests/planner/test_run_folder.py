"""A folder belongs to one request, whoever else comes in the same moment."""

import json
from pathlib import Path

import pytest

from lcplan.formats.errors import BadInputError
from planner.run.run_folder import RunFolder


def test_a_folder_of_another_request_is_refused_with_what_differs(ask, tmp_path):
    RunFolder.open(str(tmp_path), ask(seq=65536))
    assert RunFolder.open(str(tmp_path), ask(seq=65536)).path == tmp_path
    with pytest.raises(BadInputError, match=r"holds another request \(it differs in workload.seq_len\); choose another folder"):
        RunFolder.open(str(tmp_path), ask(seq=131072))


def test_of_two_requests_that_find_an_empty_folder_the_first_has_it(ask, tmp_path, monkeypatch):
    first, second = ask(seq=65536), ask(seq=131072)
    RunFolder.open(str(tmp_path), first)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", lambda self, **_: False)  # both looked before either wrote
        with pytest.raises(BadInputError, match="holds another request"):
            RunFolder.open(str(tmp_path), second)
    assert json.loads((tmp_path / "request.json").read_text())["workload"]["seq_len"] == 65536
