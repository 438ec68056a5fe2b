"""The engine that ``--engine`` names."""

from __future__ import annotations

import re
from pathlib import Path

from lcplan.formats.errors import BadInputError
from lcplan.formats.secrets import without_password
from lcplan.formats.text import whole_in
from planner.measure.engines.interface import Engine
from planner.measure.engines.local import Local
from planner.measure.targets.toolchain import Toolchain

FORMS = "local, dask://HOST:PORT, dask:N, parsl:FILE or processes:DEVICES"
MOST_WORKERS = 256


def choose_engine(word: str, toolchain: Toolchain) -> Engine:
    """Open the engine of a word such as ``dask://head:8786``. Its library is imported only here.

    Raises
    ------
    BadInputError
        No such engine, a malformed address or number, or a missing extra.
    StageFailedError
        It does not answer.
    """
    if word == "local":
        return Local()
    name, _, rest = word.partition(":")
    if name in ("dask", "dask+tls") and rest.startswith("//"):
        from planner.measure.engines.dask_engine import Dask

        return Dask.connect(_address(word, name, rest))
    if name == "dask":
        from planner.measure.engines.dask_engine import Dask

        return Dask.start(_count(word, rest, most=MOST_WORKERS))
    if name == "parsl" and rest:
        from planner.measure.engines.parsl_engine import Parsl

        return Parsl.load(Path(rest))
    if name == "processes":
        from planner.measure.engines.processes import Processes, this_process

        return Processes(this_process(_count(word, rest, most=1024)), toolchain)
    raise BadInputError(f"--engine {without_password(word)[:80]!r}: no such engine; give {FORMS}")


def _address(word: str, name: str, rest: str) -> str:
    if not re.fullmatch(r"//(\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}", rest):
        raise BadInputError(f"--engine {without_password(word)[:80]!r}: give the scheduler as {name}://HOST:PORT")
    return f"{'tls' if name == 'dask+tls' else 'tcp'}:{rest}"


def _count(word: str, text: str, *, most: int) -> int:
    count = whole_in(text)
    if count is None or not 0 < count <= most:
        raise BadInputError(f"--engine {without_password(word)[:80]!r}: give a number from 1 to {most}")
    return count


def follow_process_0(word: str, toolchain: Toolchain) -> int | None:
    """Run the steps that process 0 sends, where this is another process of several; return their number, else None.

    Raises
    ------
    BadInputError
        ``processes:`` without a number, or no launcher started several.
    """
    name, _, rest = word.partition(":")
    if name != "processes":
        return None
    from planner.measure.engines.processes import follow, this_process

    gang = this_process(_count(word, rest, most=1024))
    return follow(gang, toolchain) if gang.rank else None
