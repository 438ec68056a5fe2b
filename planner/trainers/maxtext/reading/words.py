"""Keys of a MaxText command whose values only a shell knows, and the TPU slice that a launcher names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.formats.errors import BadInputError
from planner.shell.trainer_words import unread
from planner.trainers.common.known_keys import roles_of
from planner.trainers.maxtext.read_model import FLAGS, SIZES
from planner.trainers.maxtext.reading.file import Said

OPTIONS = {
    "max_target_length": "seq",
    "per_device_batch_size": "global_batch",
    "model_name": "model",
    **dict.fromkeys((*SIZES, *FLAGS), "model"),
}
"""Options of the command line that replace a key."""


def unresolved_of(given: Said, *, file: str) -> dict[str, str]:
    """Return the options that have to be given in place of unknown words.

    Raises
    ------
    BadInputError
        A word that memory or time depend on, and that no option replaces.
    """
    found, needed = {}, []
    for key, word in given.unknown.items():
        reason = f"{file}: {unread(word.text, word)}"
        if key in OPTIONS:
            found[OPTIONS[key]] = reason
        elif key in roles_of("maxtext").read:
            needed.append(reason)
    if needed:
        raise BadInputError(needed)
    return found


def topology_of(given: Said, devices: int | None) -> dict[str, Any]:
    """The topology of the launcher's TPU slice, where nothing else states the devices."""
    hardware = given.launch.hardware
    if devices is not None or hardware is None or given.values.get("compile_topology"):
        return {}
    topology = hardware.removeprefix("tpu-").replace("7x-", "tpu7x-")
    return {"compile_topology": topology, "num_slices": given.launch.slices}


def notes_on_words(given: Said, devices: int | None, *, unresolved: Mapping[str, str]) -> list[str]:
    """Name the words that were not read, and a launch on other devices."""
    words = [
        unread(word.text, word, way_out=roles_of("maxtext").reason(key) or "it is not priced")
        for key, word in given.unknown.items()
        if OPTIONS.get(key) not in unresolved
    ]
    return [*words, *_elsewhere(given, devices)]


def _elsewhere(given: Said, devices: int | None) -> list[str]:
    """A note where the devices are others than those of the launcher's TPU slices."""
    launch = given.launch
    if launch.hardware is None or devices is None:
        return []
    from lcplan import catalog

    theirs = catalog.hardware(launch.hardware).devices * launch.slices
    return [] if theirs == devices else [f"the script asks for {theirs} devices ({launch.why}), and {devices} are priced"]
