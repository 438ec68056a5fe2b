"""Megatron's arguments whose values only a shell knows."""

from __future__ import annotations

from lcplan.formats.errors import BadInputError
from planner.shell.trainer_words import launched, unread
from planner.trainers.common.known_keys import known_keys, roles_of
from planner.trainers.megatron.arguments import Parsed

_MODEL = (
    "num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups kv-channels vocab-size rotary-base "
    "norm-epsilon make-vocab-size-divisible-by rope-scaling-factor normalization position-embedding-type"
)
OPTIONS = {
    "seq-length": "seq",
    "global-batch-size": "global_batch",
    "micro-batch-size": "global_batch",
    **dict.fromkeys(_MODEL.split(), "model"),
}
"""Options of the command line that replace an argument."""


def unresolved_of(parsed: Parsed, *, file: str) -> dict[str, str]:
    """Return the options that have to be given in place of unknown words.

    Raises
    ------
    BadInputError
        A word that memory or time depend on, and that no option replaces.
    """
    found, needed = {}, []
    for key, word in parsed.unknown.items():
        reason = f"{file}: {unread(word.text, word)}"
        if key in OPTIONS:
            found[OPTIONS[key]] = reason
        elif key in roles_of("megatron").read:
            needed.append(reason)
    if needed:
        raise BadInputError(needed)
    return found


def words_of(parsed: Parsed, devices: int | None) -> list[str]:
    """Name the words that were not read, and a launch on other devices."""
    known, roles = known_keys("megatron"), roles_of("megatron")
    found = []
    for key, word in parsed.unknown.items():
        if key in OPTIONS or key not in known:
            continue
        harmless = roles.reason(key)
        found.append(unread(word.text, word, way_out=harmless or "it is not priced"))
    return [*parsed.notes, *found, *launched(parsed.launch, devices)]
