"""docs/architecture.md names every folder of the four packages, and no path that does not exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")


def folder_table(package):
    section = re.search(rf"^### `{package}/`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    first_cells = [line.split("|")[1] for line in section[1].splitlines() if line.startswith("| `")]
    return {name for cell in first_cells for name in re.findall(r"`(\w+)/`", cell)}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_described(package):
    there = {path.name for path in (ROOT / package).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folder_table(package) == there


def test_every_path_exists():
    paths = re.findall(r"`((?:lcplan|cost_models|strategies|planner|tests|docs)/[\w./-]*)`", PAGE)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["StepKnobs", "RolloutKnobs", "Mesh", "REMAT_POLICIES", "SchemeFacts", "FAMILIES"])
def test_every_named_record_exists(name):
    paths = re.findall(r"`(lcplan/[\w/]+\.py)`", next(line for line in PAGE.splitlines() if f"`{name}`" in line))
    assert any(re.search(rf"^(class )?{name}\b", (ROOT / path).read_text(), re.MULTILINE) for path in paths)
