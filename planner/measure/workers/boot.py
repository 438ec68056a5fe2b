"""First file of a worker process: run by path under any toolchain's Python, ``boot.py PARENT_PID NAME=FOLDER...``.

It makes lcplan's packages importable from where lcplan is installed (and nothing else of that place: the toolchain's own jax
must win), keeps the real stdout for results only, and ends the process when its parent dies.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path

PARENT_CHECK_S = 0.5


class _Packages(importlib.abc.MetaPathFinder):
    """Finds the named top-level packages in their folders; their submodules then follow by themselves."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        folder = self.folders.get(fullname)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            fullname, str(Path(folder) / "__init__.py"), submodule_search_locations=[folder]
        )


def _watch(parent: int) -> None:
    """Kill this process group once the parent is gone: a killed search leaves no compile behind."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Set the process up and serve jobs until stdin closes."""
    results = os.dup(1)
    os.set_inheritable(results, False)
    os.dup2(2, 1)  # whatever prints, Python or C++, lands in the noise
    threading.Thread(target=_watch, args=(int(arguments[0]),), daemon=True).start()
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.meta_path.insert(0, _Packages(dict(pair.split("=", 1) for pair in arguments[1:])))
    worker = importlib.import_module("planner.measure.workers.worker")
    worker.serve(sys.stdin, results)


if __name__ == "__main__":
    main(sys.argv[1:])
