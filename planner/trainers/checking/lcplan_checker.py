"""How a checker talks: requests as a JSON list in its last argument, one marked JSON line each as its answers.

Standard library only. This file is run by path with a checker's path as its first argument, so that the checker imports it as
a neighbour and no other module of lcplan is on the path. Several requests share one import
of the trainer: each is looked at in a fork, with its own environment, so that they do not affect each other.

``--keys`` in place of the requests prints the keys that the installed version knows, which become the ``keys.txt`` of a
trainer whose file lcplan reads: ``PYTHON lcplan_checker.py ../maxtext/check.py --keys > ../maxtext/keys.txt``.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module, metadata
from typing import Any

MARK = "LCPLAN-CHECK "
MAX_WORDS = 1500

Check = Callable[[dict[str, Any]], dict[str, Any]]


def answer(check: Check, package: str, *, preload: str = "", keys: Callable[[], Iterable[str]] | None = None) -> None:
    """Answer every request in order. A refusal of the trainer is an answer, not a crash."""
    argument = sys.argv[1]
    sys.argv = sys.argv[:1]
    if argument == "--keys" and keys is not None:
        listed = "\n".join(sorted(set(keys())))
        sys.stdout.write(f"# Keys of {package} {_version(package)}, listed by check.py --keys\n{listed}\n")
        return
    requests: list[dict[str, Any]] = json.loads(argument)
    if len(requests) == 1:
        _answer(check, package, request=requests[0])
        return
    if preload and _version(package) != "not installed":
        import_module(preload)
    for request in requests:
        child = os.fork()
        if child == 0:
            _answer(check, package, request=request)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            words = f"the process ended with status {status} (see its stderr)"
            _say(
                {
                    "package": package,
                    "version": _version(package),
                    "accepted": False,
                    "said": words,
                    "facts": {},
                    "seconds": 0.0,
                }
            )


def _answer(check: Check, package: str, *, request: dict[str, Any]) -> None:
    start = time.perf_counter()
    os.environ.update(request.pop("environment", {}))
    result: dict[str, Any] = {"package": package, "version": _version(package)}
    try:
        result |= {"accepted": True, "said": "", "facts": check(request)}
    except SystemExit as stop:
        result |= {"accepted": False, "said": f"exit {stop.code}", "facts": {}}
    except Exception as error:  # what the trainer says is the result
        result |= {"accepted": False, "said": f"{type(error).__name__}: {error}"[:MAX_WORDS], "facts": {}}
    _say(result | {"seconds": round(time.perf_counter() - start, 2)})


def _say(result: dict[str, Any]) -> None:
    sys.stdout.write("\n" + MARK + json.dumps(result) + "\n")
    sys.stdout.flush()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    checker, *sys.argv[1:] = sys.argv[1:]
    runpy.run_path(checker, run_name="__main__")
