"""The declaration of a step file: its literal ``LCPLAN``, read without running the file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.spec.own_step import StepSpace

MAX_BYTES = 2**20
EXAMPLE = 'LCPLAN = {"axes": {"data": "batch", "model": "heads"}, "knobs": {"remat": ["none", "full"]}}'
CONTRACT = "build(mesh, strategy, workload)"


def read_declaration(path: Path) -> StepSpace:
    """Read ``LCPLAN`` of a step file.

    Raises
    ------
    BadInputError
        No such file, no Python, no ``LCPLAN`` or ``build`` in it, or a value that is not literal.
    """
    tree = _parsed(path)
    if not any(_defines(node, "build") for node in tree.body):
        raise BadInputError(f"{path}: it defines no build; a step file has a function {CONTRACT}")
    value = next((found for node in tree.body if (found := _assigned(node, "LCPLAN")) is not None), None)
    if value is None:
        raise BadInputError(f"{path}: it has no LCPLAN; write for example {EXAMPLE}")
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise BadInputError(
            f"{path}:{value.lineno}: LCPLAN is not a literal; it is read without running the file, so that it has only"
            " dicts, lists, texts and numbers"
        ) from None
    return StepSpace.read(_plain(literal), f"{path}:{value.lineno}: LCPLAN")


def _parsed(path: Path) -> ast.Module:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{path}: a step file has at most {MAX_BYTES} bytes; keep the rest in modules of its folder")
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}; give a Python file with {CONTRACT}") from None
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise BadInputError(f"{path}{line}: not Python: {error.msg if isinstance(error, SyntaxError) else error}") from None


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name == name
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name) == name for alias in node.names)
    return _assigned(node, name) is not None


def _assigned(node: ast.stmt, name: str) -> ast.expr | None:
    """The value that a statement assigns to ``name``."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    found = any(isinstance(target, ast.Name) and target.id == name for target in targets)
    return node.value if found and isinstance(node, (ast.Assign, ast.AnnAssign)) else None


def _plain(value: Any) -> Any:
    """Return the value with tuples as lists."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
