"""The storage of a study: read and open the URL that a user gives, with a clear message where that fails."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.secrets import without_password, without_secrets
from lcplan.formats.textfile import read_text

DATABASES = {"sqlite": "", "postgresql": '"lcplan[postgresql]"', "mysql": '"lcplan[mysql]"'}
"""Database kinds that Optuna's relational storage speaks, and the extra with the driver of each."""
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
"""The drivers of the extras, where a URL names none."""
GRACE_S = 60
"""How long a database that is away is waited for."""
LOCK_WAIT_S = 60
"""How long SQLite waits for another process's write."""
JOURNAL_LOCK_S = 10
"""After how long a journal's lock counts as left behind by a killed process; one write takes milliseconds."""
OPEN_ATTEMPTS = 8
"""Searches that open a new database at once may trip over each other's tables and first rows; the next look finds them."""
_RACES = ("already exists", "locked", "UNIQUE constraint", "duplicate key", "Duplicate entry")
_KINDS = "sqlite:///FILE, postgresql://.., mysql://.., journal:FILE, or the path of a .db or .log file"


class AwayError(StageFailedError):
    """The server of a study does not answer."""


def canonical_url(location: str) -> str:
    """A study's location as a URL: database URLs as they are, ``journal:FILE``, paths by their ending.

    >>> canonical_url("runs/study.db"), canonical_url("runs/study.log")
    ('sqlite:///runs/study.db', 'journal:runs/study.log')

    Raises
    ------
    BadInputError
        No kind of storage that lcplan knows.
    """
    scheme = re.match(r"([A-Za-z][\w+.\-]*):", location)
    if scheme and scheme[1].lower() == "journal":
        path = location[len("journal:") :].removeprefix("//")
        if not path:
            raise BadInputError(f"study {location!r}: no file after journal:")
        return f"journal:{path}"
    if scheme and scheme[1].lower() in _DRIVERS and "://" in location:
        return _DRIVERS[scheme[1].lower()] + location[len(scheme[1]) :]
    if scheme and scheme[1].split("+")[0].lower() in DATABASES and "://" in location:
        return location
    if not scheme and location.endswith((".db", ".sqlite", ".sqlite3")):
        return f"sqlite:///{location}"
    if not scheme and location.endswith((".log", ".jsonl")):
        return f"journal:{location}"
    raise BadInputError(f"study {without_password(location)[:200]!r} is no storage that lcplan knows; give {_KINDS}")


def given_location(word: str) -> str:
    """The URL that a user gives, as it is or as ``@FILE``: a password need not be on a command line.

    Raises
    ------
    BadInputError
        The file cannot be read.
    """
    if not word.startswith("@"):
        return word
    return read_text(Path(word[1:])).strip()


def open_storage(url: str) -> Any:
    """The Optuna storage of a canonical URL.

    Raises
    ------
    BadInputError
        Malformed, or without its driver.
    StageFailedError
        Unreachable, unreadable, corrupt, or of another Optuna's schema.
    """
    if url.startswith("journal:"):
        return _open_journal(Path(url.removeprefix("journal:")))
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        try:
            return _open_database(url)
        except Exception as error:  # drivers raise what they like; all of it is about this storage
            words = str(_root(error))
            if attempt == OPEN_ATTEMPTS or not any(race in words for race in _RACES):
                raise explained(url, error) from None
            time.sleep(0.1 * attempt)
    raise AssertionError("the last attempt returns or raises")


def _open_database(url: str) -> Any:
    from optuna.storages import RDBStorage

    sqlite = url.startswith("sqlite")
    return RDBStorage(url, engine_kwargs={"connect_args": {"timeout": LOCK_WAIT_S}} if sqlite else {"pool_pre_ping": True})


def _open_journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lock = JournalFileSymlinkLock(str(path), grace_period=JOURNAL_LOCK_S)
            return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except Exception as error:  # a broken line may raise anything
        raise explained(f"journal:{path}", error) from None


def explained(url: str, error: BaseException) -> BadInputError | StageFailedError:
    """The error that a storage raised, as one sentence about the study."""
    name, cause = without_password(url), _root(error)
    text = " ".join(without_secrets(str(cause), url).split("[SQL:")[0].split()) or type(cause).__name__
    kind = type(cause).__name__
    if kind in ("ArgumentError", "NoSuchModuleError", "ValueError") or "Could not parse" in text:
        return BadInputError(f"study {name!r}: {text}; give {_KINDS}")
    if isinstance(cause, ImportError):
        driver = DATABASES[re.split(r"[:+]", url, maxsplit=1)[0].lower()]
        return BadInputError(f"study {name!r}: its driver is missing ({text}); pip install {driver}")
    refused = any(sign in text for sign in _REFUSED)
    if not refused and any(sign in text for sign in _AWAY):
        return AwayError(f"study {name}: the server cannot be reached ({text[:200]})")
    for sign, meaning in _MEANINGS.items():
        if sign in text:
            return StageFailedError(f"study {name}: {meaning} ({text[:200]})")
    return StageFailedError(f"study {name}: {kind}: {text[:300]}")


_REFUSED = ("password authentication failed", "Access denied", "does not exist")
_AWAY = (
    "could not connect",
    "Connection refused",
    "failed to resolve",
    "connection failed",
    "Can't connect",
    "server closed the connection",
    "terminating connection",
    "connection is closed",
    "connection is lost",
    "Lost connection",
    "database system is",
)
"""Words of drivers for a server that does not answer: down, starting or shutting down. ``database system is``: PostgreSQL."""
_MEANINGS = {
    "not a database": "the file is no study or is damaged; move it away or choose another folder",
    "malformed": "the file is damaged; move it away or choose another folder",
    "Expecting": "the journal is damaged; move it away or choose another file",
    "Extra data": "the journal is damaged; move it away or choose another file",
    "codec can't decode": "the journal is damaged; move it away or choose another file",
    "readonly": "it cannot be written; choose another folder",
    "Read-only": "it cannot be written; choose another folder",
    "Permission denied": "it cannot be written; choose another folder",
    "unable to open": "it cannot be opened or made; choose another folder",
    "No such file": "its folder does not exist; make it first",
    "disk is full": "the disk is full; the study keeps its results",
    "No space left": "the disk is full; the study keeps its results",
    "disk I/O": "the disk cannot be written, it may be full; the study keeps its results",
    "File too large": "the disk cannot be written, it may be full; the study keeps its results",
    "locked": "another process has locked it; try again",
    "password authentication failed": "the server refuses user or password",
    "Access denied": "the server refuses user or password",
    "no longer compatible": "it was made by another version of Optuna; run `optuna storage upgrade` or choose another folder",
}


def _root(error: BaseException) -> BaseException:
    """The driver's own error below Optuna's and SQLAlchemy's."""
    while True:
        below = getattr(error, "orig", None) or error.__cause__
        if below is None:
            return error
        error = below
