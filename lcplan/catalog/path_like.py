"""Whether a word of the command line is meant as a path."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".yaml", ".yml", ".json")


def is_path(text: str) -> bool:
    """A separator, a spec's suffix, or something that exists under this name."""
    if "/" in text or "\\" in text or text.lower().endswith(SUFFIXES):
        return True
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # a name too long for the file system, or with a null byte
        return False
