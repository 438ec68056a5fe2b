"""Expressions of a step file's ``LCPLAN``: arithmetic, comparisons and ``and``/``or``/``not`` over named numbers; no code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
LONGEST = 500
"""Characters of an expression."""


class Expression:
    """A parsed expression. Its value needs all of ``names``."""

    def __init__(self, text: str, *, where: str) -> None:
        """Parse ``text``.

        Raises
        ------
        BadInputError
            It is no expression, or has more than arithmetic, comparisons and names.
        """
        self.text, self._where = text, where
        try:
            self._tree = ast.parse(text[: LONGEST + 1].strip(), mode="eval").body if len(text) <= LONGEST else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._tree = None
        if self._tree is None:
            raise BadInputError(f"{where}: {text[:80]!r} is no expression; write for example 'heads % model == 0'")
        self.names = frozenset(node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name))
        self._check(self._tree)

    def check_names(self, known: Mapping[str, Any]) -> None:
        """Refuse names that have no value.

        Raises
        ------
        BadInputError
            With every such name.
        """
        unknown = sorted(self.names - known.keys())
        if unknown:
            raise BadInputError([f"{self._where}: {self.text!r} names {name!r}{hint(name, tuple(known))}" for name in unknown])

    def value(self, names: Mapping[str, Any]) -> Any:
        """The expression's value.

        Raises
        ------
        BadInputError
            A division by zero, or values that do not go together.
        """
        try:
            return _value(self._tree, names)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise BadInputError(f"{self._where}: {self.text!r}: {error}") from None

    def shown(self, names: Mapping[str, Any]) -> str:
        """The values of its names: ``model=6, heads=32``."""
        return ", ".join(f"{name}={names[name]}" for name in sorted(self.names))

    def _check(self, node: ast.AST) -> None:
        good = (
            (isinstance(node, ast.BinOp) and type(node.op) in _BINARY)
            or (isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops))
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)))
            or (isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str, type(None))))
            or isinstance(node, (ast.BoolOp, ast.Name, ast.Tuple, ast.List))
        )
        if not good:
            raise BadInputError(
                f"{self._where}: {self.text!r}: {ast.unparse(node)[:60]!r} is more than arithmetic and comparisons of names"
            )
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child)


def _value(node: Any, names: Mapping[str, Any]) -> Any:
    found: Any
    match node:
        case ast.Constant():
            found = node.value
        case ast.Name():
            found = names[node.id]
        case ast.Tuple() | ast.List():
            found = tuple(_value(one, names) for one in node.elts)
        case ast.UnaryOp():
            value = _value(node.operand, names)
            found = not value if isinstance(node.op, ast.Not) else -value
        case ast.BinOp():
            found = _BINARY[type(node.op)](_number(node.left, names), _number(node.right, names))
        case ast.BoolOp():
            test = all if isinstance(node.op, ast.And) else any
            found = test(_value(one, names) for one in node.values)
        case _:
            found = _compared(node, names)
    return found


def _compared(node: Any, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, right in zip(node.ops, node.comparators, strict=True):
        found = _value(right, names)
        if not _COMPARE[type(op)](left, found):
            return False
        left = found
    return True


def _number(node: Any, names: Mapping[str, Any]) -> Any:
    """An operand of arithmetic; texts and lists would grow without bound."""
    value = _value(node, names)
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{ast.unparse(node)} = {value!r} is not a number")
    return value
