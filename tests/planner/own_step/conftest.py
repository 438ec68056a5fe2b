"""Steps of one's own as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_steps import written


@pytest.fixture
def step_file(tmp_path: Path) -> Path:
    """The small step, in a folder of its own."""
    return written(tmp_path)
