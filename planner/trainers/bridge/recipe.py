"""A recipe in Python, read with ``ast``: the literals of its function and of the functions that it calls. Nothing runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_text

UNKNOWN = object()
DEVICES = ("num_nodes", "num_gpus_per_node", "devices")
"""Parameters of a recipe that give its devices."""
MOST_CALLS = 12
_DTYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16", "uint8": "fp8"}
_SIZED = re.compile(r"([A-Za-z]+)([0-9]*)Config([0-9.x]+[BM])")
"""NeMo's configurations by model: ``Llama31Config70B``."""


@dataclass
class Recipe:
    """The settings of a recipe by their dotted names."""

    values: dict[str, Any] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    """Names of settings that are no literals."""
    model: str | None = None
    """The model's name on the hub, or NeMo's."""
    bases: set[str] = field(default_factory=set)
    """Functions of other modules that begin a configuration."""


def read_recipe(path: str, name: str | None) -> Recipe:
    """Return the settings of one function of a module.

    Raises
    ------
    BadInputError
        Not Python, or no such function.
    """
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not a Python module: {error}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name is None:
        recipes = [one for one in functions if not one.startswith("_")]
        if len(recipes) != 1 and "pretrain_recipe" not in functions:
            raise BadInputError(f"{path}: {', '.join(recipes[:20]) or 'no function'}: write FILE:function")
        name = "pretrain_recipe" if "pretrain_recipe" in functions else recipes[0]
    if name not in functions:
        raise BadInputError(f"{path}: no function {name!r}{hint(name, functions)}")
    reader = _Reader(functions, _constants(tree.body))
    reader.function(functions[name], {}, depth=0)
    return reader.recipe


def _constants(body: list[ast.stmt]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            found[target.id] = _value(node.value, found)
    return found


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """A literal, a name with a known value, a product of such, or a dtype of torch; else ``UNKNOWN``."""
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute) and node.attr in _DTYPES:
        return _DTYPES[node.attr]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv):
        one, two = _value(node.left, names), _value(node.right, names)
        if type(one) is not int or type(two) is not int or two == 0 or max(abs(one), abs(two)) > 2**40:
            return UNKNOWN
        return one * two if isinstance(node.op, ast.Mult) else one // two
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


class _Reader:
    """Follows the functions of one module."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef], constants: Mapping[str, Any]) -> None:
        self.recipe = Recipe()
        self._functions, self._constants = functions, constants

    def function(self, node: ast.FunctionDef, given: Mapping[str, Any], *, depth: int) -> None:
        """Follow a function that is called with some literal arguments."""
        names = {**self._constants, **_defaults(node, self._constants), **given}
        if depth == 0:
            self.recipe.values |= {name: names[name] for name in DEVICES if name in names}
        for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
            self._call(call, names, depth=depth)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.recipe.model = self.recipe.model or _nemo_model(inner.id)
        for target, value in _assignments(node):
            self._set(target, _value(value, names))

    def _call(self, call: ast.Call, names: Mapping[str, Any], *, depth: int) -> None:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        keywords = {one.arg: _value(one.value, names) for one in call.keywords if one.arg is not None}
        if called == "from_hf_pretrained" and call.args:
            name = _value(call.args[0], names)
            self.recipe.model = name if isinstance(name, str) else self.recipe.model
        if called in self._functions and depth < MOST_CALLS:
            known = {name: value for name, value in keywords.items() if value is not UNKNOWN}
            self.function(self._functions[called], known, depth=depth + 1)
            return
        if called.endswith("_common"):
            self.recipe.bases.add(called)
        if called.startswith("distributed_fused_adam"):
            self._set("use_distributed_optimizer", True)
        for name, value in keywords.items():
            if not isinstance(value, dict | list | tuple) or name == "cp_comm_type":
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if value is UNKNOWN:
            self.recipe.computed.append(name)
        else:
            self.recipe.values[name] = value


def _nemo_model(name: str) -> str | None:
    match = _SIZED.fullmatch(name)
    if match is None:
        return None
    family, version, size = match[1].lower(), match[2], match[3].lower()
    dotted = f"{version[0]}.{version[1:]}" if len(version) > 1 else version
    return f"{family}{dotted}-{size}"


def _defaults(node: ast.FunctionDef, constants: Mapping[str, Any]) -> dict[str, Any]:
    arguments, defaults = node.args.args, node.args.defaults
    paired = dict(zip([one.arg for one in arguments[len(arguments) - len(defaults) :]], defaults, strict=True))
    paired |= {one.arg: value for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value}
    return {name: found for name, value in paired.items() if (found := _value(value, constants)) is not UNKNOWN}


def _assignments(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """``cfg.model.seq_length = ..`` as the dotted name behind the first, and its value."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Assign) or not isinstance(inner.targets[0], ast.Attribute):
            continue
        parts: list[str] = []
        current: ast.expr = inner.targets[0]
        while isinstance(current, ast.Attribute):
            parts.insert(0, current.attr)
            current = current.value
        if isinstance(current, ast.Name):
            yield ".".join(parts), inner.value
