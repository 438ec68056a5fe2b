"""Models of the catalogue by name."""

from __future__ import annotations

from lcplan.catalog import folder
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.spec.model import ModelSpec


def model_names() -> tuple[str, ...]:
    """Every model of the catalogue."""
    return folder.names("models")


def named(text: str) -> ModelSpec:
    """The catalogue's model of this name.

    Raises
    ------
    BadInputError
        Unknown name.
    """
    name = text.lower()
    if folder.has("models", name):
        return ModelSpec.read(*folder.read("models", name))
    raise BadInputError(
        f"unknown model {text!r:.80}{hint(name, model_names())} "
        "`lcplan catalog models` lists all; the path of a config.json, of a folder with one, or of a YAML spec works too"
    )
