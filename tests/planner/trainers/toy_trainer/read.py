"""``--from-toy FILE``."""

from __future__ import annotations

from math import prod

from lcplan.formats.textfile import read_json
from planner.trainers.common.imported import Imported, mesh_text
from planner.trainers.common.known_keys import unknown_keys


def read(file: str, devices: int | None = None) -> Imported:
    """The strategy of the file."""
    said = read_json(file)
    options = {
        "devices": devices or prod(said["mesh"].values()),
        "mesh": mesh_text(said["mesh"]),
        "scheme": ("all-gather",),
        "remat": ("full" if said["checkpointing"] else "none",),
    }
    return Imported("toy", file, options, unknown=unknown_keys("toy", said))
