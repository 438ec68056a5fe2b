"""docs/specs.md tells the truth: its files are written and its sessions run."""

import doctest
import re
from pathlib import Path

import pytest

from lcplan.catalog import hardware

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "specs.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(yaml|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind):
    return [text for name, text in BLOCK.findall(PAGE) if name == kind]


def test_every_file_of_the_page_has_a_name_and_every_session_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {re.match(r"# file: (\S+)\n", text)[1]: text for text in blocks("yaml")}
    assert len(files) == len(blocks("yaml")) == 7
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    session = "\n".join(blocks("pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, "specs.md", "docs/specs.md", 0)
    assert len(test.examples) >= 15
    report = []
    results = doctest.DocTestRunner().run(test, out=report.append)
    assert results.failed == 0, "".join(report)


SLICE = re.compile(r"^\| \S+ \| [^|]+ \| ([12])[^|]* \| `(tpu-\S+)` \| ([0-9x]+) \| ([0-9]+) \|$", re.MULTILINE)


def test_the_table_of_tpu_slices():
    rows = SLICE.findall(PAGE)
    assert len(rows) == 7
    for per_chip, name, chips, devices in rows:
        spec = hardware(name)
        assert "x".join(map(str, spec.torus)) == chips
        assert (spec.devices_per_chip, spec.devices) == (int(per_chip), int(devices))


@pytest.mark.parametrize("name", re.findall(r"^\| `([a-z][a-z0-9-]+)`(?:, `([a-z0-9-]+)`)? \|", PAGE, re.MULTILINE))
def test_names_of_the_first_table_exist(name):
    assert all(hardware(part).name == part for part in name if part)


def test_notation_names_every_size_of_a_model_and_every_mesh_axis():
    from lcplan.evidence.measurement import RUNGS
    from lcplan.strategy import AXES

    page = (DOCS / "notation.md").read_text(encoding="utf-8")
    for word in (*AXES, *RUNGS, "d_model", "d_ff", "heads", "kv_heads", "head_dim", "layers", "vocab"):
        assert f"| `{word}` |" in page
