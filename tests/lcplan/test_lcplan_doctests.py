"""The examples in lcplan's docstrings run."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import lcplan

ROOT = Path(lcplan.__file__).parent
MODULES = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in sorted(ROOT.rglob("*.py"))]
WITH_EXAMPLES = [
    name for name in MODULES if ">>> " in (ROOT.parent / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    results = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert results.attempted > 0
    assert results.failed == 0
