"""Every key that a trainer's version knows is read, or has no part in the price, or is answered with a note."""

import re
from fnmatch import fnmatchcase

import pytest

from planner.trainers.common.known_keys import Noted, Roles, known_keys, notes_on, roles_of
from planner.trainers.registry import folder_of

SWEPT = (
    "maxtext", "megatron", "torchtitan", "accelerate", "deepspeed", "levanter", "llamafactory", "axolotl", "trl",
)  # fmt: skip
SECTIONS = ("fsdp_", "parallelism_config_")
"""Prefixes of keys that a reader adds to a part of their name."""
AXES = re.compile(r"(?:ici|dcn)_(\w+)_parallelism")
"""Keys that MaxText's reader makes of the names of axes."""


def source_of(name: str) -> str:
    """The modules of a trainer's folder and those that several trainers share, but for the lists of roles."""
    files = [*folder_of(name).rglob("*.py"), *(folder_of(name).parent / "common").glob("*.py")]
    return "".join(file.read_text() for file in files if file.name != "key_roles.py")


@pytest.mark.parametrize("name", SWEPT)
def test_every_key_has_one_role(name):
    roles = roles_of(name)
    wrong = {key: roles.roles(key) for key in known_keys(name) if len(roles.roles(key)) != 1}
    assert wrong == {}


@pytest.mark.parametrize("name", SWEPT)
def test_the_lists_name_keys_that_exist(name):
    roles, known = roles_of(name), known_keys(name)
    assert roles.read | set(roles.noted) <= known
    patterns = [one for keys in roles.harmless.values() for one in keys.split()]
    assert [one for one in patterns if not any(fnmatchcase(key, one) for key in known)] == []


@pytest.mark.parametrize("name", SWEPT)
def test_a_key_that_is_read_is_in_the_reader(name):
    source = source_of(name)
    ends = {key: AXES.sub(r"\1", key.rpartition(".")[2]) for key in roles_of(name).read}
    for prefix in SECTIONS:
        ends = {key: end.removeprefix(prefix) for key, end in ends.items()}
    starts = ("decoder-first-", "decoder-last-", "disable-tp-comm-", "no-tp-comm-")  # read by their prefix
    assert [key for key, end in ends.items() if end not in source and not end.startswith(starts)] == []


@pytest.mark.parametrize("name", SWEPT)
def test_every_noted_key_makes_a_note(name):
    noted = roles_of(name).noted
    assert noted
    for key, note in noted.items():
        memory = note.takes_memory
        assert notes_on(name, {key: "another value"}, takes_memory=memory) == [f"{key} another value: {note.words}"]
        assert notes_on(name, {key: "another value"}, takes_memory=not memory) == []
        assert all(notes_on(name, {key: value}, takes_memory=memory) == [] for value in note.unless)
    assert notes_on(name, dict.fromkeys(roles_of(name).read, 7)) == []


def test_a_stated_key_wins_over_a_pattern():
    roles = Roles(read=frozenset({"log-size"}), harmless={"logging": "log-*"}, noted={"log-all": Noted("not priced")})
    assert [roles.roles(key) for key in ("log-size", "log-all", "log-other", "size")] == [["read"], ["noted"], ["harmless"], []]
