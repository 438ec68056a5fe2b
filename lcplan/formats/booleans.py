"""Booleans in the files of other programs, quoted or not: ``"true"`` and 'False' are read as the booleans that they spell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcplan.formats.errors import BadInputError

_SPELT = {"true": True, "false": False}


def unquoted(data: Any) -> Any:
    """Return plain values with each text ``true`` or ``false``, in any case, as the boolean that it spells.

    >>> unquoted({"packing": "False", "names": ["true", "x"]})
    {'packing': False, 'names': [True, 'x']}
    """
    if isinstance(data, str):
        return _SPELT.get(data.strip().lower(), data) if len(data) < 20 else data
    if isinstance(data, dict):
        return {key: unquoted(value) for key, value in data.items()}
    return [unquoted(value) for value in data] if isinstance(data, list) else data


def truth(section: Mapping[str, Any], key: str, *, default: bool = False, file: str) -> bool:
    """Return the boolean under ``key``: true or false, quoted or not, 1 or 0; ``default`` where the key is absent or empty.

    >>> truth({"packing": "False"}, "packing", default=True, file="run.yml")
    False

    Raises
    ------
    BadInputError
        Another value.
    """
    value = unquoted(section.get(key))
    if value is None or value == "":
        return default
    if not isinstance(value, bool) and not (isinstance(value, int | float) and value in (0, 1)):
        raise BadInputError(f"{file}: {key}: {value!r:.60} is neither true nor false; write true or false")
    return bool(value)
