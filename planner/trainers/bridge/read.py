"""``--from-bridge FILE``: a recipe of Megatron-Bridge or NeMo in Python, its YAML, or a script with its overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lcplan.catalog.hub_names import hub_model
from lcplan.formats.booleans import unquoted
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import parse_yaml, read_text, read_yaml
from planner.shell.launch import NO_LAUNCH
from planner.shell.trainer_words import launched, trainer_words, unread
from planner.trainers.bridge.arguments import COMMON, NAMES, PEFT, arguments_of, devices_of
from planner.trainers.bridge.facts import FRONT_END
from planner.trainers.bridge.recipe import DEVICES, Recipe, read_recipe
from planner.trainers.common.imported import Imported
from planner.trainers.common.known_keys import known_keys, roles_of
from planner.trainers.huggingface.run import EVERY
from planner.trainers.megatron.arguments import Parsed
from planner.trainers.megatron.read import imported as read_megatron

REST = "has further settings, which are not in this file; give its function (FILE.py:function) to --from-bridge"
MOST_REFERENCES = 5
_REFERENCE = re.compile(r"\$\{(\.?)([\w.]+)\}")
SECTIONS = ("model.", "train.", "ddp.", "dataset.", "optimizer.", "tokenizer.", "mixed_precision", "trainer.", "peft")


def read(file: str, devices: int | None = None) -> Imported:
    """Read the settings.

    Raises
    ------
    BadInputError
        No setting of Megatron-core, a needed value that is computed, or a pipeline.
    """
    path, colon, name = file.rpartition(":") if ".py:" in file else (file, "", "")
    if path.endswith(".py"):
        return _imported(read_recipe(path, name if colon else None), file=file, devices=devices)
    if Path(path).suffix in (".yaml", ".yml"):
        values = _resolved(_flat(unquoted(read_yaml(path)), file))
        found = _imported(Recipe(values), file=file, devices=devices)
        whole = any(name.endswith("num_layers") for name in values)
        return found if whole else replace(found, unpriced=(*found.unpriced, f"its recipe {REST}"))
    return _script(file, devices)


def _flat(data: Any, file: str, above: str = "") -> dict[str, Any]:
    """Every value by its dotted name."""
    if not isinstance(data, dict):
        raise BadInputError(f"{file}: not a configuration of {FRONT_END.title}; it must be a YAML mapping")
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, file, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found


def _resolved(values: dict[str, Any]) -> dict[str, Any]:
    """The values with references (``${model.seq_length}``) in place; a reference to nothing here is left out."""
    for _ in range(MOST_REFERENCES):
        values = {name: _referred(name, value, values) for name, value in values.items()}
    return {name: value for name, value in values.items() if not (isinstance(value, str) and "${" in value)}


def _referred(name: str, value: Any, values: dict[str, Any]) -> Any:
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    beside = f"{name.rpartition('.')[0]}.{match[2]}" if match[1] else match[2]
    return values.get(beside, value)


def _script(file: str, devices: int | None) -> Imported:
    """The overrides of a script, whose recipe is in the package."""
    script = trainer_words(read_text(file), file, knows=lambda word: "=" in word and word.startswith(SECTIONS))
    recipe, recipes, needed = Recipe(), [], []
    for index, word in enumerate(script.words):
        key, equals, value = word.text.partition("=")
        if key == "--recipe":
            recipes.append(value if equals else script.words[index + 1].text if index + 1 < len(script.words) else "")
        if not equals or not key.startswith(SECTIONS):
            continue
        if word.unknown and _argument(key) in roles_of("megatron").read:
            needed.append(f"{file}: {unread(word.text, word)}")
        elif not word.unknown:
            recipe.values[key] = unquoted(parse_yaml(value, f"{file}: {key}")) if value else None
    if needed:
        raise BadInputError(needed)
    if not recipe.values:
        raise BadInputError(f"{file}: no override of {FRONT_END.title}, such as model.tensor_model_parallel_size=2")
    found = _imported(recipe, file=file, devices=devices or script.launch.devices)
    rest = (
        f"the recipe {', '.join(recipes) or 'that the script names'} has further settings; give its function with --from-bridge"
    )
    return replace(
        found, notes=(*script.notes, *launched(script.launch, devices), *found.notes), unpriced=(*found.unpriced, rest)
    )


def _argument(key: str) -> str:
    name = key.rpartition(".")[2]
    return NAMES.get(name, name.replace("_", "-"))


def _imported(recipe: Recipe, *, file: str, devices: int | None) -> Imported:
    values = {**(COMMON if recipe.bases else {}), **recipe.values}
    arguments = arguments_of(values)
    if not any(
        name in known_keys("megatron") for name in arguments if name not in ("bf16", "no-create-attention-mask-in-dataloader")
    ):
        raise BadInputError(f"{file}: no setting of Megatron-core in it")
    computed = {_argument(name): name for name in recipe.computed if _argument(name) not in arguments}
    needed = [name for argument, name in computed.items() if argument in roles_of("megatron").read and argument not in _LEFT]
    stated = devices_of(values)
    base = read_megatron(Parsed(arguments, {}, (), NO_LAUNCH), file=file, devices=devices or stated)
    notes = [f"{name} is computed in {file} and was not read" for name in needed]
    if stated is not None and devices not in (None, stated):
        notes.append(f"{' x '.join(DEVICES[:2])} is {stated}, and {devices} devices are priced")
    model = hub_model(recipe.model) if recipe.model else None
    options = dict(base.options) | ({"model": model} if model else {})
    kept = [note for note in base.notes if not (model and "give --model" in note)]
    if recipe.model and model is None:
        notes.append(f"{recipe.model} is not in the catalogue: give --model")
    return replace(
        base,
        options=options,
        through=FRONT_END.title,
        notes=(*notes, *kept),
        unpriced=(*base.unpriced, *_unpriced(values, recipe)),
        again=None,
    )


_LEFT = frozenset({"vocab-size", "pipeline-model-parallel-layout", "make-vocab-size-divisible-by"})
"""Settings whose value is the model's own."""


def _unpriced(values: Mapping[str, Any], recipe: Recipe) -> list[str]:
    adapted = [name for name in PEFT if values.get(name) not in (None, False, "none")]
    if adapted or any("peft" in base for base in recipe.bases):
        return [f"{adapted[0] if adapted else 'a recipe for adapters'}: {EVERY}"]
    return []
