"""The command line in this process."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from planner.cli.main import run


@pytest.fixture
def lcplan(capsys, tmp_path, monkeypatch) -> Callable[..., tuple[int, Any, str]]:
    """``lcplan("estimate", ..)`` in an empty folder: exit code, document, what stderr says."""
    monkeypatch.chdir(tmp_path)

    def _lcplan(*arguments: str) -> tuple[int, Any, str]:
        code = run([*arguments, "--format", "json"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return _lcplan
