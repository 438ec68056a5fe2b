"""Temporary folders of killed processes go when the next one is made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lcplan.formats.scratch import scratch_folder

HANGS = """
import sys, time
from lcplan.formats.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "dump").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_the_folder_of_a_killed_process_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        with scratch_folder() as folder:
            assert folder.parent == left.parent == tmp_path
            assert (left / "dump").exists()  # it lives
        process.send_signal(signal.SIGKILL)
    assert left.exists()
    other = tmp_path / "lcplan-notes"
    other.mkdir()
    with scratch_folder() as folder:
        assert not left.exists()
        assert sorted(tmp_path.iterdir()) == sorted([folder, other])
    assert os.listdir(tmp_path) == ["lcplan-notes"]
