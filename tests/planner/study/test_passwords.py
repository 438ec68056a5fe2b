"""Passwords of a study's URL are in no message, file, JSON or record, in whatever form the URL has them."""

from __future__ import annotations

import logging
from urllib.parse import unquote

import pytest

from lcplan.formats.secrets import without_password
from planner.cli.main import run

SECRET = "hunter2swordfish"  # noqa: S105
FORMS = {
    "user and password": "postgresql://me:{}@127.0.0.1:1/db",
    "no user": "postgresql://:{}@127.0.0.1:1/db",
    "a driver": "postgresql+psycopg://me:{}@127.0.0.1:1/db",
    "the field password": "postgresql://127.0.0.1:1/db?user=me&password={}",
    "the field of a key": "postgresql://me@127.0.0.1:1/db?sslmode=disable&sslpassword={}",
    "a file of passwords": "postgresql://me@127.0.0.1:1/db?passfile={}",
    "IPv6": "postgresql://me:{}@[::1]:1/db",
    "a socket": "postgresql://me:{}@/db?host=/no/such/folder",
    "a socket and fields": "postgresql:///db?host=/no/such/folder&user=me&password={}",
    "an at sign": "postgresql://me:p@{}@127.0.0.1:1/db",
    "a slash": "postgresql://me:p/{}@127.0.0.1:1/db",
    "a question mark": "postgresql://me:p?{}@127.0.0.1:1/db",
    "a hash": "postgresql://me:p#{}@127.0.0.1:1/db",
    "a colon": "postgresql://me:p:{}@127.0.0.1:1/db",
    "a blank": "postgresql://me:p {}@127.0.0.1:1/db",
    "percent signs": "postgresql://me:%68unter2swordfish@127.0.0.1:1/db{0:.0}",
    "a port that is none": "postgresql://me:{}@127.0.0.1:port/db",
    "one slash": "postgresql:/me:{}@127.0.0.1/db",
    "no slash": "postgresql:me:{}@127.0.0.1/db",
    "no scheme": "me:{}@127.0.0.1/db",
    "another scheme": "redis://me:{}@127.0.0.1/0",
    "an unknown driver": "postgresql+nothing://me:{}@127.0.0.1:1/db",
    "MySQL": "mysql://me:{}@127.0.0.1:1/db",
    "SQLite with a host": "sqlite://me:{}@127.0.0.1/db",
}
JOB = ["search", "--model", "llama-tiny", "--seq", "256", "--hw", "cpu-host", "--devices", "1", "--stages", "compiled"]


def _written(folder):
    return "\n".join(file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("given", ["option", "variable", "file"])
@pytest.mark.parametrize("form", FORMS)
def test_a_password_is_never_shown(form, given, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    url = FORMS[form].format(SECRET)
    words = ["--study", url]
    if given == "variable":
        monkeypatch.setenv("LCPLAN_STUDY", url)
        words = []
    elif given == "file":
        secret = tmp_path.parent / f"{tmp_path.name}.secret"
        secret.write_text(url + "\n")
        words = ["--study", f"@{secret}"]
    with caplog.at_level(logging.DEBUG):
        assert run([*JOB, *words, "--grace", "0", "--out", "run", "--format", "json"]) in (2, 3)
    said = capsys.readouterr()
    for text in (said.out, said.err, caplog.text, _written(tmp_path)):
        assert SECRET not in unquote(text)
        assert "swordfish" not in text


def test_a_password_in_an_engines_address(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run([*JOB, "--engine", f"dask://me:{SECRET}@127.0.0.1:1", "--out", "run"]) == 2
    assert SECRET not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("sqlite:///a/b:c@d.db", "sqlite:///a/b:c@d.db"),
        ("journal:a:b@c", "journal:a:b@c"),
        ("mysql://me:x@h/db?ssl_key=f", "mysql://me:***@h/db?ssl_key=***"),
    ],
)
def test_the_rest_of_an_address_stays(address, shown):
    assert without_password(address) == shown
