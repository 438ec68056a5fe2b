"""A toolchain whose compiles take a moment of no processor time: a Python that is a script.

Started with lcplan's ``boot.py`` it is a worker that answers each job after ``STUB_SECONDS`` with a fixed result. Started
with anything else it is the real Python. The file ``STUB_LOG`` gets ``start PID KEY`` and ``end PID KEY`` for each job.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path

RESULT = {"argument_bytes": 5, "output_bytes": 4, "temp_bytes": 3, "alias_bytes": 4, "total_bytes": 8, "compile_s": 0.5}


def write_stub(folder):
    """Write the script and return its path."""
    file = folder / "stub-python"
    file.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({__file__!r}, run_name='__main__')\n")
    file.chmod(0o755)
    return file


def _log(word, key):
    with Path(os.environ["STUB_LOG"]).open("a") as stream:
        stream.write(f"{word} {os.getpid()} {key}\n")


def _serve():
    boot = runpy.run_path(sys.argv[1])
    threading.Thread(target=boot["_watch"], args=(int(sys.argv[2]),), daemon=True).start()
    gang = json.loads(os.environ.get("LCPLAN_GANG", "null"))
    closed = Path(os.environ["STUB_LOG"]).with_suffix(".closed")
    if gang and gang["rank"] > 0:
        while not closed.exists():
            time.sleep(0.1)
        return
    for line in sys.stdin:
        key = json.loads(line)["id"]
        _log("start", key)
        time.sleep(float(os.environ["STUB_SECONDS"]))
        _log("end", key)
        print(json.dumps({"id": key, "result": RESULT}), flush=True)
    if gang:
        closed.touch()


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1].endswith("boot.py"):
        _serve()
    else:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606
