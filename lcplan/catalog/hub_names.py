"""Models of the catalogue by their names on the Hugging Face hub, as configurations of trainers have them."""

from __future__ import annotations

import re

from lcplan.catalog import folder
from lcplan.catalog.named_model import model_names
from lcplan.spec.model import ModelSpec

_VARIANT = re.compile(
    r"-(?:instruct|chat|base|hf|it|pt|thinking|text|original|bf16|fp32|unsloth|bnb|4bit|8bit|[0-9]{4}|v0\.[0-9]|preview)(?=-|$)"
)
"""Parts of a name that give training, format or date, and not sizes."""
_MAKER = re.compile(r"^(?:meta-|hf-|nous-|unsloth-)")
_LLAMA = re.compile(r"^llama-?([0-9](?:\.[0-9])?)-")


def hub_model(name: str) -> ModelSpec | None:
    """Return the catalogue's model of a name on the hub or of a path that ends in one, or None.

    Variants of one model (Base, Instruct) have the same sizes.

    >>> hub_model("meta-llama/Meta-Llama-3-8B-Instruct").name
    'llama3-8b'
    >>> hub_model("Qwen/Qwen2.5-7B-Instruct").name
    'qwen2.5-7b'
    >>> hub_model("/models/Llama-3.3-70B-Instruct/").name
    'llama3.3-70b'
    >>> hub_model("someone/their-own-8B") is None
    True
    """
    last = name.rstrip("/").rpartition("/")[2].lower().replace("_", "-")
    for spelling in (last, _plain(last, versions=True), _plain(last, versions=False)):
        if folder.has("models", spelling):
            return ModelSpec.read(*folder.read("models", spelling))
    near = [one for one in model_names() if one.startswith(f"{_plain(last, versions=False)}-v")]
    return ModelSpec.read(*folder.read("models", near[-1])) if len(near) == 1 else None


def _plain(name: str, *, versions: bool) -> str:
    """A name without its maker and variant, in the catalogue's spelling; ``versions``: with ``-v0.1``."""
    kept = re.search(r"-v0\.[0-9]", name) if versions else None
    plain = _VARIANT.sub("", _MAKER.sub("", name))
    plain = _LLAMA.sub(r"llama\1-", plain).replace("qwen2-", "qwen2.5-")  # which have the same sizes
    return plain + (kept[0] if kept else "")
