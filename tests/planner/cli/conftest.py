"""The command line run in this process, in a folder of its own."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from planner.cli.main import run


@dataclass(frozen=True)
class Answer:
    """What one command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


@pytest.fixture
def lcplan(capsys, tmp_path, monkeypatch) -> Callable[..., Answer]:
    """``lcplan("search", "--model", ..)`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def _lcplan(*arguments: str) -> Answer:
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return _lcplan
