"""How a checker talks: a JSON request as its only argument, one marked JSON line as its answer. Standard library only.

Checkers are run by path, so that this file is imported as a neighbour.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

MARK = "LCPLAN-CHECK "
MAX_WORDS = 1500


def answer(check: Callable[[dict[str, Any]], dict[str, Any]], package: str) -> None:
    """Run ``check`` on the request and print what came of it. A refusal of the trainer is an answer, not a crash."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    sys.argv = sys.argv[:1]
    start = time.perf_counter()
    result: dict[str, Any] = {"package": package, "version": _version(package)}
    try:
        result |= {"accepted": True, "said": "", "facts": check(request)}
    except SystemExit as stop:
        result |= {"accepted": False, "said": f"exit {stop.code}", "facts": {}}
    except Exception as error:  # what the trainer says is the result
        result |= {"accepted": False, "said": f"{type(error).__name__}: {error}"[:MAX_WORDS], "facts": {}}
    result["seconds"] = round(time.perf_counter() - start, 2)
    sys.stdout.flush()
    sys.stdout.write("\n" + MARK + json.dumps(result) + "\n")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
