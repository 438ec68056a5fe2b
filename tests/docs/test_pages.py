"""Every number in a page is computed: the ``>>>`` blocks of each page run, in the page's order, in a folder of their own."""

import doctest
import re
from pathlib import Path

import pytest

from lcplan.evidence.plan import PLAN_SCHEMA_VERSION
from planner.cli.main import run

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def label(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture
def plan_folder(tmp_path, monkeypatch):
    """Where pages find ``plan.yaml``: that of the seed's mesh, at the modelled rung."""
    monkeypatch.chdir(tmp_path)
    search = "search --model llama3-8b --seq 256k --hw gb200-nvl72 --devices 32 --mesh context=16,tensor=2 --remat full"
    assert run([*search.split(), "--scheme", "ring-zigzag", "--backend", "nccl", "--stages", "modelled", "--out", "."]) == 0
    return tmp_path


@pytest.mark.usefixtures("plan_folder")
@pytest.mark.parametrize("page", PAGES, ids=label)
def test_page(page, capsys):
    blocks = [block for block in FENCE.findall(page.read_text()) if ">>>" in block]
    source = "\n".join(blocks)
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    capsys.readouterr()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, clear_globs=False)
    assert runner.failures == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_of_a_page_exist(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"


def _defined(name):
    """Whether a dotted name is a module or folder of the packages, or is defined in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        files = [path.with_suffix(".py"), path / "__init__.py"]
        if found := next((file for file in files if file.exists()), None):
            rest = parts[count:]
            return not rest or re.search(rf"\b{rest[0]}\b", found.read_text()) is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_names_of_code_exist(page):
    prose = FENCE.sub("", page.read_text())
    names = re.findall(r"`((?:lcplan|cost_models|strategies|planner)(?:\.\w+)+)`", prose)
    assert [name for name in names if not _defined(name)] == []


def test_the_plan_page_states_the_schema_version():
    assert f"| `schema_version` | {PLAN_SCHEMA_VERSION}. " in (ROOT / "docs" / "plan.md").read_text()
