"""``--model``: a catalogue name, a Hugging Face config.json or a folder with one, or a YAML spec."""

from __future__ import annotations

from pathlib import Path

from lcplan.catalog import folder
from lcplan.catalog.path_like import is_path
from lcplan.errors import BadInputError
from lcplan.model import ModelSpec
from lcplan.suggest import hint


def model_names() -> tuple[str, ...]:
    """Every model of the catalogue."""
    return folder.names("models")


def model(name_or_path: str) -> ModelSpec:
    """The model that a user asked for.

    Raises
    ------
    BadInputError
        Unknown name (with near names), unreadable or wrong file, or an architecture that lcplan does not model.
    """
    text = name_or_path.strip()
    if not folder.has("models", text.lower()) and is_path(text):
        return _from_file(Path(text))
    return named(text)


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


def _from_file(path: Path) -> ModelSpec:
    if path.suffix.lower() in {".yaml", ".yml"}:
        from lcplan.userspec import read_model

        return read_model(path)
    from lcplan.hf import read_config

    return read_config(path)
