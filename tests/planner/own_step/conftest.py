"""Steps of one's own as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_steps import written

from planner.measure.targets.toolchain import probe


@pytest.fixture
def step_file(tmp_path: Path) -> Path:
    """The small step, in a folder of its own."""
    return written(tmp_path)


@pytest.fixture
def gpu() -> None:
    """Skip where no GPU can be compiled for."""
    verdict = probe().targets["gpu"]
    if verdict is not True:
        pytest.skip(f"no GPU target: {verdict}")
