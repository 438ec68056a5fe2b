"""Where a study may lie, and what is said of a place that is none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.secrets import without_password
from planner.study import Store
from planner.study.location import canonical_url, open_storage


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("sqlite:///a/study.db", "sqlite:///a/study.db"),
        ("a/study.db", "sqlite:///a/study.db"),
        ("postgresql://u:p@h/db", "postgresql+psycopg://u:p@h/db"),
        ("postgresql+psycopg2://h/db", "postgresql+psycopg2://h/db"),
        ("mysql+pymysql://h/db", "mysql+pymysql://h/db"),
        ("journal:a/b", "journal:a/b"),
        ("journal:///a/b", "journal:/a/b"),
        ("runs/shared.log", "journal:runs/shared.log"),
    ],
)
def test_locations(given: str, url: str) -> None:
    assert canonical_url(given) == url


@pytest.mark.parametrize("given", ["ftp://x", "redis://h/0", "http://h/study.db", "study", "", "journal:", "C:\\study.txt"])
def test_what_is_no_storage(given: str) -> None:
    with pytest.raises(BadInputError, match="study"):
        canonical_url(given)


def test_passwords_are_not_shown() -> None:
    assert without_password("postgresql://me:secret@h:5432/db") == "postgresql://me:***@h:5432/db"
    with pytest.raises(BadInputError) as caught:
        canonical_url("ftp://me:secret@h/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:/no/slashes", "postgresql://h:notaport/db", "sqlite+nothing:///x.db"])
def test_malformed_urls_are_bad_input(url: str) -> None:
    with pytest.raises(BadInputError):
        open_storage(canonical_url(url))


@pytest.mark.parametrize(
    ("url", "module", "package"),
    [("postgresql://h/db", "psycopg", r'"lcplan\[postgresql\]"'), ("mysql://h/db", "pymysql", r'"lcplan\[mysql\]"')],
)
def test_a_missing_driver_is_named(url: str, module: str, package: str) -> None:
    if find_spec(module):
        pytest.skip(f"{module} is installed")
    with pytest.raises(BadInputError, match=f"its driver is missing .*pip install {package}"):
        open_storage(canonical_url(url))


@pytest.mark.parametrize("location", ["sqlite:///{}/no/folder/study.db", "journal:{}/no/folder/study.log"])
def test_a_folder_that_is_not_there(tmp_path: Path, location: str) -> None:
    with pytest.raises(StageFailedError, match=r"folder"):
        open_storage(location.format(tmp_path))


@pytest.mark.parametrize("content", [b"garbage\n", b"\x00\xff\xfe\n", b'{"op_code": 0}{}\n'])
def test_a_damaged_journal_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.log").write_bytes(content)
    with pytest.raises(StageFailedError, match="the journal is damaged; move it away or choose another file"):
        Store.open(f"journal:{tmp_path}/study.log")
