"""``--model``: a catalogue name, a Hugging Face config.json or a folder with one, or a YAML spec."""

from __future__ import annotations

from pathlib import Path

from lcplan.catalog import folder
from lcplan.catalog.named_model import named
from lcplan.catalog.path_like import is_path
from lcplan.spec.model import ModelSpec


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


def _from_file(path: Path) -> ModelSpec:
    if path.suffix.lower() in {".yaml", ".yml"}:
        from lcplan.catalog.user_specs import read_model

        return read_model(path)
    from lcplan.hf import read_config

    return read_config(path)
