"""The JSON that a script gives to a training program as ``--deepspeed`` or ``--deepspeed_config``."""

from __future__ import annotations

from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import named_beside, read_json, read_text
from planner.shell.trainer_words import trainer_words, unread

_OPTIONS = ("--deepspeed", "--deepspeed_config", "--deepspeed-config")


def file_of_script(file: str, devices: int | None) -> tuple[Any, int | None]:
    """Return the content of the JSON, and the devices that are asked for or that the launcher starts.

    Raises
    ------
    BadInputError
        No such option in the script, a name that only a shell knows, or a JSON that is not in its folder.
    """
    script = trainer_words(read_text(file), file, knows=lambda word: word.partition("=")[0] in _OPTIONS)
    named = None
    for index, word in enumerate(script.words):
        name, equals, value = word.text.partition("=")
        following = script.words[index + 1] if index + 1 < len(script.words) else None
        if name not in _OPTIONS or (not equals and (following is None or following.text.startswith("--"))):
            continue
        known = word if equals or following is None else following
        if known.unknown:
            raise BadInputError(f"{file}: {unread(f'{name} {known.text}', known)}")
        named = value if equals else known.text
    if named is None:
        raise BadInputError(f"{file}: no --deepspeed or --deepspeed_config with a JSON in it")
    found = named_beside(named, file)
    if found is None:
        raise BadInputError(f"{file}: {named} is not in its folder; put it there")
    return read_json(found), devices or script.launch.devices
