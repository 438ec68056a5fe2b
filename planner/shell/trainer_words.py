"""Words of a shell script for a trainer: of the command that starts it, or of the variables that hold its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.shell.launch import NO_LAUNCH, Launch, launch_of
from planner.shell.script import Command, Word, chosen, read_script


@dataclass(frozen=True)
class TrainerWords:
    """The words that a trainer is started with."""

    words: tuple[Word, ...]
    command: Command | None = None
    """None: the words of variables, or of a file that has only arguments."""
    launch: Launch = NO_LAUNCH
    notes: tuple[str, ...] = ()


def trainer_words(text: str, file: str, *, knows: Callable[[str], bool]) -> TrainerWords:
    """Return the words of the command that the trainer knows the most words of; none: it knows no word of the script.

    Parameters
    ----------
    text, file
        The script; nothing of it is run.
    knows
        Whether a word is one of the trainer's arguments.
    """
    script = read_script(text, file)
    command, equal = chosen(script, knows)
    bare = [one for one in script.commands if one.texts[0].startswith("-")]
    if bare and (command is None or command in bare):  # arguments without a program, a line of them at a time
        return TrainerWords(tuple(word for one in bare for word in one.words), notes=script.notes)
    if command is None:
        found = [word for words in script.variables.values() if any(knows(word.text) for word in words) for word in words]
        return TrainerWords(tuple(found), notes=script.notes)
    lost = [
        f"line {one.line}: {one.texts[0]} is no part of the command, which a comment or a blank line ends before it"
        for one in bare
        if knows(one.texts[0])
    ]
    several = f"the script starts the trainer {equal} times; the last is read, in line {command.line}"
    notes = (*script.notes, *lost, *(several,) * (equal > 1))
    return TrainerWords(command.arguments, command, launch_of(command), notes)


def unread(shown: str, word: Word, *, way_out: str = "write its value") -> str:
    """Return the reason why a word was not read."""
    return f"{shown}: {' and '.join(unknown.words for unknown in word.unknown)}, so it was not read; {way_out}"


def launched(launch: Launch, devices: int | None) -> list[str]:
    """A note where the devices that are asked for are others than the script's."""
    if launch.devices is None or devices in (None, launch.devices):
        return []
    return [f"the script starts {launch.devices} processes ({launch.why}), and {devices} devices are priced"]
