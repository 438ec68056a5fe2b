"""Every number in a page is computed: the ``>>>`` blocks of each page run, in the page's order, in a folder of their own."""

import doctest
import re
from pathlib import Path

import pytest

from planner.cli.main import run

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def plan_folder(tmp_path, monkeypatch):
    """Where pages find ``plan.yaml``: that of the seed's mesh, at the modelled rung."""
    monkeypatch.chdir(tmp_path)
    search = "search --model llama3-8b --seq 256k --hw gb200-nvl72 --devices 32 --mesh context=16,tensor=2 --remat full"
    assert run([*search.split(), "--scheme", "ring-zigzag", "--backend", "nccl", "--stages", "modelled", "--out", "."]) == 0
    return tmp_path


@pytest.mark.usefixtures("plan_folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, capsys):
    blocks = [block for block in FENCE.findall(page.read_text()) if ">>>" in block]
    source = "\n".join(blocks)
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    capsys.readouterr()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, clear_globs=False)
    assert runner.failures == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
