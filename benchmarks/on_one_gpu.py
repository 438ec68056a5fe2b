"""What one borrowed GPU is asked, in one command of ten minutes: ``python benchmarks/on_one_gpu.py collect``.

Six parts, each in processes of its own, every row kept in benchmarks/data/one_gpu.json as soon as it is there; the same
command goes on with what is missing or failed.

* ``chunks``: every scheme's chunk sequence through the card's attention kernel, gradients against fp32;
* ``rates``: ``lcplan calibrate`` of the card;
* ``steps``: lcplan's step beside a plain one, time and peak memory;
* ``slices``: one rank of the best long-context strategies of an eight-device node, timed;
* ``whole``: these with all layers, for the timing's extrapolation and for the peak;
* ``memory``: the same slices compiled without the card, beside the others on the host's cores.

``page`` prints the tables. ``collect --tiny`` tries the whole way with shapes for host devices. Needs a Python with lcplan (or
its root on PYTHONPATH) and a jax that sees the card; no network.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from one_gpu.card import Card
from one_gpu.child import Child
from one_gpu.kept import Kept
from one_gpu.page import page

DATA = Path(__file__).parent / "data" / "one_gpu.json"
LIMIT_S = 570.0
LEAST_S = 15.0
"""No process begins with less time left."""


@dataclass(frozen=True)
class Part:
    """A question of several rows: ``module.ids`` names them, ``module.run`` makes them."""

    module: str
    share: float
    """Of the time of the whole, at most; what one leaves is the others'."""
    row_s: float
    """A row that takes longer is given up."""
    rows_a_process: int | None = None
    run: str = "run"
    on_host: bool = False
    """Leaves the card alone, so it runs beside the others."""


PARTS = {
    "chunks": Part("one_gpu.chunks", share=0.25, row_s=60.0),
    "rates": Part("one_gpu.rates", share=0.35, row_s=200.0),
    "steps": Part("one_gpu.steps", share=0.6, row_s=150.0, rows_a_process=1),
    "slices": Part("one_gpu.slices", share=1.0, row_s=170.0, rows_a_process=1),
    "whole": Part("one_gpu.slices", share=1.0, row_s=120.0, rows_a_process=1, run="whole"),
    "memory": Part("one_gpu.slices", share=1.0, row_s=120.0, run="compiled", on_host=True),
}


@dataclass(frozen=True)
class Session:
    """One command on one card until ``deadline`` [s of the monotonic clock]."""

    card: Card
    names: Mapping[str, Sequence[str]]
    """Of each part's rows."""
    kept: Kept
    limit_s: float
    deadline: float

    def missing(self, name: str) -> list[str]:
        """Rows of a part that are not there, or failed."""
        return [one for one in self.names[name] if not self.kept.has(name, one)]

    def work(self, names: Sequence[str]) -> None:
        """Part after part; those that leave the card alone beside the others."""
        lanes = [[name for name in names if PARTS[name].on_host is on_host] for on_host in (True, False)]
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in lanes if lane]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _lane(self, names: Sequence[str]) -> None:
        tried: set[tuple[str, str]] = set()
        for share in (True, False):  # what a part's share did not reach has what the others left
            for name in names:
                self._part(name, tried, end=PARTS[name].share * self.limit_s + time.monotonic() if share else self.deadline)

    def _part(self, name: str, tried: set[tuple[str, str]], *, end: float) -> None:
        """What is missing of a part; a process that dies costs the row that it was at."""
        part, end = PARTS[name], min(end, self.deadline)
        todo = [one for one in self.missing(name) if (name, one) not in tried]
        while todo and end - time.monotonic() > LEAST_S:
            batch = todo[: part.rows_a_process]
            child = Child(command(name, self.card, batch), on_host=part.on_host or self.card.platform == "cpu")
            for row in child.rows(row_s=part.row_s, until=end):
                self._keep(name, row)
                batch.remove(row["id"])
            if batch and (child.words or time.monotonic() < end):
                self._keep(name, {"id": batch[0], "error": child.words or "its process made no such row"})
                tried.add((name, batch[0]))
            todo = [one for one in self.missing(name) if (name, one) not in tried]

    def _keep(self, name: str, row: dict[str, Any]) -> None:
        self.kept.put(name, row)
        print(
            f"{self.limit_s - self.deadline + time.monotonic():4.0f} s", name, row["id"], row.get("error", "done"), flush=True
        )


def command(name: str, card: Card | None, wanted: Sequence[str]) -> list[str]:
    """A process of one part; without a card: that looks for one."""
    return [sys.executable, str(Path(__file__).resolve()), "child", json.dumps([name, card and card.to_json(), list(wanted)])]


def child(text: str) -> None:
    """Inside a process of one part: a line for each row."""
    name, fields, wanted = json.loads(text)
    if fields is None:
        card = import_module("one_gpu.card").look(tiny=name == "tiny")
        names = {name: import_module(part.module).ids(card) for name, part in PARTS.items()}
        rows = iter([{"card": card.to_json(), "names": names}])
    else:
        part = PARTS[name]
        rows = getattr(import_module(part.module), part.run)(wanted, Card(**fields))
    for row in rows:
        print(f"{Child.MARK}{json.dumps(row)}", flush=True)


def collect(given: argparse.Namespace) -> int:
    """Ask the card for what is missing; the exit code says whether all of it is there."""
    begun = time.monotonic()
    looking = Child(command("tiny" if given.tiny else "real", None, []), on_host=given.tiny)
    found = next(looking.rows(row_s=120.0, until=begun + given.limit_s), None)
    if found is None:
        print(f"no accelerator answers: {looking.words}", file=sys.stderr)
        return 3
    card = Card(**found["card"])
    if card.platform == "cpu" and not given.tiny:
        print("jax sees no GPU here, only host devices; use --tiny to try the way", file=sys.stderr)
        return 2
    session = Session(card, found["names"], Kept.open(given.data, card), given.limit_s, begun + given.limit_s)
    session.work(given.parts)
    missing = [f"{name} {one}" for name in given.parts for one in session.missing(name)]
    print(f"{time.monotonic() - begun:.0f} s; missing or failed: {', '.join(missing) or 'nothing'}", flush=True)
    return 1 if missing else 0


def _parts(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return names


def main(arguments: Sequence[str]) -> int:
    """Collect, or print the tables."""
    if arguments[:1] == ["child"]:
        child(arguments[1])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["collect", "page"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--parts", type=_parts, default=list(PARTS), metavar=",".join(PARTS))
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    parser.add_argument("--tiny", action="store_true", help="small shapes: on host devices, or a first look at a card")
    given = parser.parse_args(arguments)
    if given.action == "page":
        print(page(Kept.read(given.data)))
        return 0
    return collect(given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
