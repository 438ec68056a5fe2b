"""Megatron's arguments: parsed from text, and read as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.text import whole_in
from planner.shell.launch import NO_LAUNCH, Launch
from planner.shell.script import Word
from planner.shell.trainer_words import trainer_words, unread
from planner.trainers.common.imported import number, whole
from planner.trainers.common.known_keys import known_keys
from planner.trainers.wrappers.primus import Wrapped

Arguments = dict[str, list[str]]
SWIFT = frozenset({"max-length", "train-type", "tuner-type", "model"})
"""Arguments of ms-swift's ``megatron`` commands that Megatron does not have."""
Number = Callable[[str, int | None], int | None]


@dataclass(frozen=True)
class Parsed:
    """A script's arguments."""

    arguments: Arguments
    unknown: Mapping[str, Word]
    """Arguments with a word that only a shell knows."""
    notes: tuple[str, ...]
    launch: Launch


def parse(text: str, file: str) -> Arguments:
    """Arguments with their values, in the order of the file; the last of equal names wins, as argparse has it.

    Raises
    ------
    BadInputError
        A quote that is not closed, or no argument at all.
    """
    return parse_script(text, file).arguments


NEGATIVE = {
    "add_bias_linear": "disable-bias-linear",
    "gradient_accumulation_fusion": "no-gradient-accumulation-fusion",
    "create_attention_mask_in_dataloader": "no-create-attention-mask-in-dataloader",
}
"""Fields that an argument turns off, by that argument."""


def parse_fields(wrapped: Wrapped) -> Parsed:
    """Arguments of a file that has Megatron's fields as keys: true is a flag, false and null are absent."""
    found: Arguments = {}
    for key, value in wrapped.values.items():
        if key in NEGATIVE:
            found |= {NEGATIVE[key]: []} if value is False else {}
        elif value is not None and value is not False:
            words = value if isinstance(value, list) else [] if value is True else [value]
            found[str(key).replace("_", "-")] = [str(word) for word in words]
    model = f"{wrapped.model}: give --model" if wrapped.model else ""
    return Parsed(found, {}, (*wrapped.notes, *([model] if model else [])), NO_LAUNCH)


def parse_script(text: str, file: str) -> Parsed:
    """Arguments of a script, or of a file that has only arguments, and the words that only a shell knows.

    Raises
    ------
    BadInputError
        A quote that is not closed, or no argument at all.
    """
    script = trainer_words(text, file, knows=_knows)
    found: Arguments = {}
    unknown: dict[str, Word] = {}
    notes = list(script.notes)
    name: str | None = None
    for word in script.words:
        if word.text.startswith("--") and len(word.text) > 2:
            name, equals, value = word.text[2:].partition("=")
            name = name.replace("_", "-")  # ms-swift writes Megatron's names so, and flags with true or false
            found[name] = [value] if equals else []
            unknown.pop(name, None)
        elif name is not None:
            found[name].append(word.text)
        if word.unknown and (name is None or not found[name]):
            notes.append(unread(word.text, word, way_out="write its words"))
        elif word.unknown:
            assert name is not None
            unknown[name] = Word(f"--{name} {' '.join(found[name])}", word.unknown)
    if not found:
        raise BadInputError(f"{file}: no Megatron argument in it")
    kept = {key: values for key, values in found.items() if unquoted(values) != [False] and key not in unknown}
    return Parsed(
        {key: [] if unquoted(values) == [True] else values for key, values in kept.items()},
        unknown,
        tuple(notes),
        script.launch,
    )


def _knows(word: str) -> bool:
    """Whether a word is an argument of Megatron's, in its own spelling or ms-swift's."""
    name = word[2:].partition("=")[0].replace("_", "-")
    return word.startswith("--") and (name in known_keys("megatron") or name in SWIFT)


def numbers(arguments: Arguments, file: str) -> Number:
    """Read a whole number by its argument's name, or return a default if the argument is absent.

    Raises
    ------
    BadInputError
        When it is asked: the argument's value is no whole number above zero.
    """

    def read(name: str, default: int | None) -> int | None:
        values = arguments.get(name)
        if values is None:
            return default
        found = whole_in(values[0]) if len(values) == 1 else None
        if found is None:
            raise BadInputError(f"{file}: --{name} {' '.join(values)[:60]}: not a whole number above zero")
        return whole(found, f"--{name}", file=file)

    return read


def real(arguments: Arguments, name: str, *, default: float, file: str) -> float:
    """Return a number by its argument's name, or a default if the argument is absent.

    Raises
    ------
    BadInputError
        The argument's value is no number.
    """
    values = arguments.get(name)
    if values is None:
        return default
    try:
        (text,) = values
        return number(float(text), f"--{name}", file=file)
    except ValueError:
        raise BadInputError(f"{file}: --{name} {' '.join(values)[:60]}: not a number") from None
