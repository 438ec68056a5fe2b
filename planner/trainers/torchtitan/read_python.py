"""torchtitan's Python configuration, read with ``ast``: literal arguments of the calls that build it. Nothing runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lcplan.formats.booleans import truth
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_text
from lcplan.spec.model import ModelSpec, Rope
from planner.trainers.common.imported import recognised, whole
from planner.trainers.torchtitan.sections import Sections, flavored

REMAT: Mapping[str, str] = MappingProxyType({"FullAC": "full", "SaveAttention": "save-attention", "SelectiveAC": "save-all"})
SECTIONS = MappingProxyType({"TrainingConfig": "training", "ParallelismConfig": "parallelism"})
_MISSING = object()
_MOST_BASES = 8


class Module:
    """A module's constants and the statements of one function."""

    def __init__(self, file: str, name: str | None) -> None:
        self.file = file
        try:
            self.tree = ast.parse(read_text(file))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise BadInputError(f"{file}: not a Python module: {error}") from None
        self.constants = dict(_constants(self.tree.body))
        self.function = self._function(name, file)
        self.functions = tuple(self._bases(self.function))

    def _bases(self, function: ast.FunctionDef, above: tuple[str, ...] = ()) -> Iterator[ast.FunctionDef]:
        """The functions of the module whose configurations a function changes, and the function itself after them."""
        others = {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}
        for call in _calls(function):
            base = others.get(_called(call))
            if base is not None and base.name not in (*above, function.name) and len(above) < _MOST_BASES:
                yield from self._bases(base, (*above, function.name))
        yield function

    def _function(self, name: str | None, file: str) -> ast.FunctionDef:
        functions = {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}
        if name is not None and name not in functions:
            raise BadInputError(f"{file}: no function {name!r}{hint(name, functions)}")
        building = {key: node for key, node in functions.items() if any(_called(call) in SECTIONS for call in _calls(node))}
        chosen = {name: functions[name]} if name is not None else building
        if len(chosen) != 1:
            which = f"{', '.join(chosen)} build configurations: write FILE:function" if chosen else "no function builds one"
            raise BadInputError(f"{file}: {which}")
        return next(iter(chosen.values()))

    def calls(self) -> Iterator[ast.Call]:
        """Every call of the function, in source order, after the calls of the functions that it begins with."""
        return (call for function in self.functions for call in _calls(function))

    def value(self, node: ast.expr) -> Any:
        """A literal, or a constant of the module; else ``_MISSING``."""
        if isinstance(node, ast.Name):
            return self.constants.get(node.id, _MISSING)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = self.value(node.left), self.value(node.right)
            return factors[0] * factors[1] if all(type(factor) is int for factor in factors) else _MISSING
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            return _MISSING

    def keywords(self, call: ast.Call) -> tuple[dict[str, Any], list[str]]:
        """Return the literal keywords of a call, and the names of computed ones."""
        values = {keyword.arg: self.value(keyword.value) for keyword in call.keywords if keyword.arg is not None}
        computed = [name for name, value in values.items() if value is _MISSING]
        return {name: value for name, value in values.items() if value is not _MISSING}, computed


def read_python(file: str) -> Sections:
    """Return the literals of the module's function; computed values are named, not guessed.

    Raises
    ------
    BadInputError
        Not Python, or no function of it builds a configuration.
    """
    path, colon, name = file.rpartition(":") if ".py:" in file else (file, "", "")
    module = Module(path, name if colon else None)
    sections: dict[str, dict[str, Any]] = {"training": {}, "parallelism": {}}
    notes: list[str] = []
    for call in module.calls():
        section = SECTIONS.get(_called(call))
        if section:
            values, computed = module.keywords(call)
            sections[section] |= values
            notes += [f"{section}.{key} is computed in {path} and was not read" for key in computed]
    for section, key, node in (one for function in module.functions for one in _assigned(function)):
        value = module.value(node)
        if value is _MISSING:
            notes.append(f"{section}.{key} is computed in {path} and was not read")
        else:
            sections[section][key] = value
    notes += _later_names(sections["training"])
    converters = dict.fromkeys(_called(call).partition(".")[0] for call in module.calls() if "Converter." in _called(call))
    notes += [f"{name}: lcplan prices bf16" for name in converters]
    remat, more = _remat(module)
    chunks, unread = _loss_chunks(module)
    return Sections(
        training=sections["training"],
        parallelism=sections["parallelism"],
        model=_model(module),
        remat=remat,
        attention=_attention(module),
        compiled=any(
            _called(call) == "CompileConfig" and truth(module.keywords(call)[0], "enable", file=path) for call in module.calls()
        ),
        graphs=any(_called(call) == "TrainingConfig" for call in module.calls()),
        selective=any(_called(call) == "SelectiveAC.Config" for call in module.calls()),
        loss_chunks=chunks,
        notes=(*notes, *more, *unread),
    )


def _later_names(training: dict[str, Any]) -> list[str]:
    """Give the lengths of torchtitan after 0.3.0 their names of 0.3.0, and note it."""
    length, tokens = training.get("max_context_length"), training.get("num_tokens_per_microbatch_per_dp_rank")
    if type(length) is not int or length < 1 or "seq_len" in training:
        return []
    training["seq_len"] = training.pop("max_context_length")
    if type(tokens) is int and tokens >= length and tokens % length == 0:
        training["local_batch_size"] = training.pop("num_tokens_per_microbatch_per_dp_rank") // length
    return [
        "max_context_length and num_tokens_per_microbatch_per_dp_rank are of a later torchtitan, and priced as full sequences"
    ]


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, Any]]:
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                yield node.targets[0].id, ast.literal_eval(node.value)
            except (ValueError, TypeError):
                continue


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def _called(call: ast.Call) -> str:
    """Return the last names of the called object: ``FullAC.Config`` for ``ac.FullAC.Config(..)``."""
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.insert(0, node.id)
    return ".".join(parts[-2:]) if parts and parts[-1] == "Config" else (parts[-1] if parts else "")


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, str, ast.expr]]:
    """``config.training.seq_len = ..`` as (section, key, value)."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute):
            section = target.value.attr
            if section in SECTIONS.values():
                yield section, target.attr, node.value


def _stated(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """Values that a function gives to a setting: ``config.NAME = ..``, or a keyword of a call."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == name:
            yield node.value
        if isinstance(node, ast.keyword) and node.arg == name:
            yield node.value


def _remat(module: Module) -> tuple[str | None, list[str]]:
    for value in (one for function in reversed(module.functions) for one in _stated(function, "activation_checkpoint")):
        if isinstance(value, ast.Constant) and value.value is None:
            return "save-all", []
        name = _called(value).partition(".")[0] if isinstance(value, ast.Call) else ""
        if name == "SelectiveAC":
            return "save-all", [
                "selective checkpointing keeps attention and every second product: priced so, nearest policy none"
            ]
        if name in REMAT:
            return REMAT[name], []
        return None, [f"lcplan does not know activation_checkpoint {name or 'value'}: give --remat"]
    return None, ["activation_checkpoint is the base configuration's and was not read: give --remat"]


def _loss_chunks(module: Module) -> tuple[Any, list[str]]:
    """Return the number of pieces as written, None if the loss is not chunked, and the unread settings."""
    for call in reversed([*module.calls()]):
        if _called(call) == "ChunkedLossWrapper.Config":
            values, _ = module.keywords(call)
            return values.get("num_chunks", 8), []
    return None, ["the loss is the base configuration's and was not read: priced without chunks (--loss-chunk-tokens)"]


def _attention(module: Module) -> str | None:
    """The backend that the model registry is asked for, where it is a literal."""
    calls = (call for call in reversed([*module.calls()]) if _called(call) == "model_registry")
    asked = (module.keywords(call)[0].get("attn_backend") for call in calls)
    return next((str(value) for value in asked if value is not None), None)


def _package(module: Module) -> str:
    """torchtitan's package of the model: that of the registry's import, or the module's own folder."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "model_registry" for alias in node.names):
            if node.level == 1 and not node.module:
                return Path(module.file).absolute().parent.name
            if node.module and node.module.startswith("torchtitan.models."):
                return node.module.split(".")[2]
    return ""


def _model(module: Module) -> ModelSpec | None:
    package = _package(module)
    model: ModelSpec | None = None
    rope: dict[str, Any] = {}
    for call in module.calls():
        values, _ = module.keywords(call)
        if _called(call) == "model_registry" and call.args:
            model = flavored(package, str(module.value(call.args[0])))
        if _called(call) in ("replace", "ComplexRoPE.Config", "CosSinRoPE.Config") and "theta" in values:
            rope = _rope(values)
        if _called(call) == "replace" and "normalized_shape" in values and "eps" in values and model is not None:
            model = model.model_copy(update={"norm_eps": values["eps"]})
        if _called(call).startswith("_build_") and model is not None and not values.keys() < {"n_layers", "dim"}:
            model = _built(model, values, module=module)
    if model is None or not rope:
        return model
    return recognised(model.model_copy(update={"rope": Rope.read(rope, f"{module.file}: rope")}))


def _rope(values: Mapping[str, Any]) -> dict[str, Any]:
    rope: dict[str, Any] = {"theta": values["theta"]}
    if values.get("scaling") == "llama":
        rope |= {"scaling": "llama3", "factor": values.get("scaling_factor", 8.0)}
        rope |= {"low_freq_factor": values.get("low_freq_factor", 1.0), "high_freq_factor": values.get("high_freq_factor", 4.0)}
        rope["original_max_position"] = values.get("original_max_position_embeddings", 8192)
    return rope


def _built(base: ModelSpec, values: Mapping[str, Any], *, module: Module) -> ModelSpec:
    """A model built from its sizes, as lcplan's own exports write it."""
    width_name = "hidden_dim" if base.experts is None else "moe_hidden_dim"
    missing = [name for name in ("n_layers", "dim", width_name, "n_heads") if name not in values]
    if missing:
        raise BadInputError(f"{module.file}: no literal {' and '.join(missing)} of the model; give --model")
    width, heads = (whole(values[name], name, file=module.file) for name in ("dim", "n_heads"))
    experts = _experts(base, values)
    sizes = {
        "name": "imported",
        "experts": experts,
        "qk_norm": truth(module.constants, "QK_NORM", default=base.qk_norm, file=module.file),
        "layers": values["n_layers"],
        "d_model": width,
        "d_ff": values[width_name],
        "heads": heads,
        "kv_heads": values.get("n_kv_heads") or heads,
        "head_dim": values.get("head_dim") or width // heads,
        "vocab": module.constants.get("VOCAB", base.vocab),
        "tied_embeddings": truth(module.constants, "TIED", default=base.tied_embeddings, file=module.file),
    }
    return ModelSpec.read(base.model_dump(mode="json") | sizes, module.file)


def _experts(base: ModelSpec, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The experts of layers that are built from sizes."""
    if base.experts is None:
        return None
    known = {"count": base.experts.count, "active": base.experts.active, "d_ff": base.experts.d_ff}
    names = {"count": "num_experts", "active": "top_k", "d_ff": "moe_hidden_dim"}
    return {ours: values.get(theirs, known[ours]) for ours, theirs in names.items()}
