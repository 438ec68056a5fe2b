"""The commands of a script, also inside quoted words and here-documents, and the command that starts a trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.shell.commands import Command
from planner.shell.run import Run
from planner.shell.slurm import directives_of, variables_of
from planner.shell.words.expand import Expander
from planner.shell.words.syntax import parsed
from planner.shell.words.unknown import Marks, Unknown, Word, cleaned

if TYPE_CHECKING:
    from planner.shell.words.variables import Variables

MOST_LEVELS = 6
"""Scripts inside words of scripts."""
MOST_COMMANDS = 5_000
_STARTS = re.compile(
    r"(?:^|[\s;&|\"'/])(?:python[0-9.]*|torchrun|accelerate|deepspeed|srun|mpirun|bash|sh|uv|llamafactory-cli|axolotl|trl)\s"
)
_ENVIRONMENTS = re.compile(r"(activate|conda\.sh|bashrc|profile|setvars\.sh)$")
"""Scripts that choose the Python of a run."""


@dataclass(frozen=True)
class Script:
    """Commands that a script would run."""

    commands: tuple[Command, ...]
    variables: Mapping[str, tuple[Word, ...]]
    """The words of its variables at its end."""
    notes: tuple[str, ...] = ()


def read_script(text: str, file: str) -> Script:
    """Follow a script without running anything.

    Raises
    ------
    BadInputError
        A quote that is not closed, or loops and values beyond those of a script for people.
    """
    return _read(cleaned(text), file, level=0, given={}, first_line=1)


def _read(text: str, file: str, *, level: int, given: Mapping[str, Word], first_line: int) -> Script:
    directives = directives_of(text)
    marks = Marks()
    expander = Expander(marks, file, first_line=first_line)
    for name, value in variables_of(directives).items():
        expander.variables.set(name, value)
    for name, word in given.items():
        expander.variables.set(name, _marked(word, marks))
    run = Run(expander, directives)
    run.script(parsed(text, file))
    commands = tuple(one for command in run.commands for one in (command, *_inside(command, file, level=level)))
    unread = dict.fromkeys(name for name in run.unread if not _ENVIRONMENTS.search(name))
    notes = tuple(f"{name}: a script that is not in this folder was not read" for name in unread)
    return Script(commands[:MOST_COMMANDS], _words(expander.variables, marks), notes)


def _marked(word: Word, marks: Marks) -> str:
    """A value of an outer script, with marks for the parts that were unknown there."""
    text = word.text
    for unknown in word.unknown:
        text = text.replace(unknown.text, marks.mark(unknown.text, unknown.line, why=unknown.why))
    return text


def _words(variables: Variables, marks: Marks) -> dict[str, tuple[Word, ...]]:
    single = {name: tuple(marks.word(word) for word in value.split()) for name, value in variables.values.items()}
    several = {
        name: tuple(marks.word(word) for value in array.values() for word in value.split())
        for name, array in variables.arrays.items()
    }
    return {**single, **several}


def _inside(command: Command, file: str, *, level: int) -> list[Command]:
    """The commands inside a command's words and its here-document."""
    if level >= MOST_LEVELS:
        return []
    texts = [word for index, word in enumerate(command.words) if _is_script(command, index)]
    texts += [command.stdin] if command.stdin is not None and _STARTS.search(command.stdin.text) else []
    found = []
    for word in texts:
        inner = _read(word.text, file, level=level + 1, given=command.environment, first_line=command.line)
        found += [_known_unknowns(replace(one, outer=one.outer or command), word) for one in inner.commands]
    return found


def _known_unknowns(command: Command, word: Word) -> Command:
    """Give parts that the outer script left unknown their line and reason there."""
    reasons = {unknown.text: unknown for unknown in word.unknown}

    def better(one: Word) -> Word:
        return Word(one.text, tuple(reasons.get(unknown.text, unknown) for unknown in one.unknown))

    return replace(command, words=tuple(better(one) for one in command.words))


def _is_script(command: Command, index: int) -> bool:
    text = command.texts[index]
    if index and command.texts[index - 1] == "-c":
        return True
    value = text.partition("=")[2] if text.startswith("--") else text
    return any(sign in value.strip() for sign in " \n\t") and bool(_STARTS.search(value))


def chosen(script: Script, knows: Callable[[str], bool]) -> tuple[Command | None, int]:
    """Return the command most of whose words a trainer knows, the last of equal ones, and the number of equal ones."""
    scores = [sum(knows(word) for word in command.texts) for command in script.commands]
    best = max(scores, default=0)
    if not best:
        return None, 0
    equal = [command for command, score in zip(script.commands, scores, strict=True) if score == best]
    return equal[-1], len(equal)


__all__ = ["Command", "Script", "Unknown", "Word", "chosen", "read_script"]
