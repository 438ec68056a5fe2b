"""Kills at random moments under each engine: a search loses, changes and compiles twice nothing but what was running.

Compiles are stubs that wait (``stub_toolchain``); processes, engines, messages and the study are real.
"""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("psutil")
pytest.importorskip("distributed")
pytest.importorskip("parsl")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "study"))

from killing import SECONDS, SURVIVORS, Trial, run_trial
from postgresql_server import new_server
from stub_toolchain import write_stub

ENGINES = ("local", "dask", "parsl", "processes")
KILLS = 20
LONGEST = SECONDS * SURVIVORS / 2


def _trial(stack, folder, engine, kind, *, number):
    """A trial on SQLite, or on a PostgreSQL server that is killed."""
    url, database = f"sqlite:///{folder}/study.db", None
    if kind == "database":
        database = stack.enter_context(new_server())
        url = database.url
    trial = Trial(folder, write_stub(folder), engine=engine, url=url, seq=256 * (number + 1), database=database)
    return stack.enter_context(closing(trial))


QUICK = [("local", "compile"), ("local", "search"), ("dask", "worker"), ("parsl", "compile"), ("processes", "search")]


@pytest.mark.parametrize(("engine", "kind"), QUICK)
def test_a_kill_costs_only_what_was_running(engine, kind, tmp_path):
    with ExitStack() as stack:
        run_trial(_trial(stack, tmp_path, engine, kind, number=0), kind, moment=LONGEST / 2)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_twenty_kills_at_random_moments(engine):
    drawn = random.Random(17)  # noqa: S311 (a repeatable draw)
    for number in range(KILLS):
        with TemporaryDirectory(prefix="kill") as name, ExitStack() as stack:
            trial = _trial(stack, Path(name), engine, "", number=number)
            kinds = [*trial.victims(), "database"]
            kind, moment = kinds[number % len(kinds)], drawn.uniform(0, LONGEST)
            if kind == "database":
                trial = _trial(stack, Path(name), engine, kind, number=number)
            found = run_trial(trial, kind, moment)
            print(f"{engine} {number + 1} after {moment:.2f} s: {found}", flush=True)
