"""RunFolder: where a search keeps its request, study, results and plan."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.textfile import read_json, write_text

DEFAULT_PARENT = "lcplan-runs"


class Question(Protocol):
    """A request, as its folder sees it."""

    @property
    def identity(self) -> dict[str, Any]:
        """The facts that make two requests the same question."""

    @property
    def slug(self) -> str:
        """A name for its folder."""


class Decision(Protocol):
    """A plan, as a folder sees it."""

    def save(self, path: str | Path) -> None:
        """Write it atomically."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one request."""

    path: Path

    @classmethod
    def open(cls, out: str | None, request: Question) -> RunFolder:
        """Make or reopen the folder of ``request``.

        Raises
        ------
        BadInputError
            The folder belongs to another request; the message names the fields that differ.
        StageFailedError
            It cannot be made or written.
        """
        folder = cls(Path(out) if out else Path(DEFAULT_PARENT) / request.slug)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            folder._claim(request.identity)
        except OSError as error:
            raise StageFailedError(f"{folder.path}: {error.strerror or error}; choose another folder with --out") from None
        return folder

    def _claim(self, identity: dict[str, Any]) -> None:
        file = self.path / "request.json"
        with contextlib.suppress(FileExistsError):  # another search may have been first in the same moment
            if not file.exists():
                write_text(file, json.dumps(identity, indent=1) + "\n", anew=True)
        different = sorted(_differences(read_json(file), identity))
        if different:
            raise BadInputError(
                f"{self.path} holds another request (it differs in {', '.join(different[:6])}); choose another "
                "folder with --out"
            )

    @property
    def study_url(self) -> str:
        """The study that a search uses unless it is given one."""
        return f"sqlite:///{self.path.resolve() / 'study.db'}"

    @property
    def executables(self) -> Path:
        """Executables that compiles leave for the timings of an unfinished search."""
        return self.path / "executables"

    @property
    def plan_file(self) -> Path:
        """The emitted plan."""
        return self.path / "plan.yaml"

    def save(self, document: dict[str, Any], plan: Decision | None) -> None:
        """Write ``result.json`` and, where something fits, ``plan.yaml``; each all or nothing.

        Raises
        ------
        StageFailedError
            A file cannot be written (disk full, read-only); files of an earlier run stay as they were.
        """
        try:
            write_text(self.path / "result.json", json.dumps(document, indent=1) + "\n")
            if plan is not None:
                plan.save(self.plan_file)
        except OSError as error:
            raise StageFailedError(f"{self.path}: {error.strerror or error}; finished compiles are in the study") from None
        shutil.rmtree(self.executables, ignore_errors=True)


def _differences(old: Any, new: Any, prefix: str = "") -> set[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found: set[str] = set()
        for key in old.keys() | new.keys():
            found |= _differences(old.get(key), new.get(key), f"{prefix}.{key}" if prefix else key)
        return found
    return set() if old == new else {prefix}
