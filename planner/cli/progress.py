"""Progress on stderr: bars on a terminal, one plain line a finished job elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lcplan.formats.units import format_bytes, format_seconds
from planner.candidates.candidate import Candidate
from planner.run.tune.trial import TunedTrial

_WORDS = {"modelled": "priced", "compiled": "compiling", "timed": "timing", "tuning": "tuning"}


class ProgressWatcher:
    """A search's ``Watcher`` for people."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}", style="dim"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def stage(self, name: str, total: int | None) -> None:
        """A stage begins; without ``total`` it ends by the clock."""
        self._stage = name
        if name == "modelled":
            self._console.print(f"{_WORDS[name]} {total:,} strategies", style="dim", highlight=False)
            return
        self._task = self._progress.add_task(_WORDS[name], total=total, last="")

    def finished(self, candidate: Candidate) -> None:
        """One more job is there; a failed or non-fitting compile does not count towards the survivors."""
        line = _line(candidate, self._stage)
        if self._task is not None:
            self._progress.update(self._task, advance=1 if candidate.best.fits else 0, last=line[:60])
        if not self._console.is_terminal:
            self._console.print(f"{self._stage}: {line}", highlight=False, soft_wrap=True)

    def tried(self, trial: TunedTrial) -> None:
        """The tuner ended one more trial."""
        line = f"{trial.outcome}: {trial.label}: {trial.says}"
        if self._task is not None:
            self._progress.update(self._task, completed=trial.number + 1, last=line[:60])
        if not self._console.is_terminal:
            self._console.print(f"trial {trial.number}: {line}", highlight=False, soft_wrap=True)


def _line(candidate: Candidate, stage: str) -> str:
    result = candidate.timed if stage == "timed" else candidate.compiled
    label = candidate.strategy.label
    if result is None or result.error:
        return f"{label}: failed: {result.error if result else 'no result'}"
    if stage == "timed":
        outcome = f"{format_seconds(candidate.best.step_s)} a step"
    else:
        fit = "" if candidate.best.fits else ", over budget"
        outcome = f"{format_bytes(candidate.best.memory_bytes)}{fit}"
        outcome += f", compiled in {candidate.compiled.compile_s:.1f} s" if candidate.compiled else ""
    return f"{label}: {outcome}"
