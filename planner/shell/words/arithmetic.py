"""Arithmetic of the shell on whole numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub

LARGEST = 2**63
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: eq,
    ast.NotEq: ne,
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
_TERNARY = re.compile(r"([^?]+)\?([^:]+):(.+)", re.DOTALL)
_C = ((re.compile(r"//?"), "//"), (re.compile(r"&&"), " and "), (re.compile(r"\|\|"), " or "), (re.compile(r"!(?!=)"), " not "))


def evaluate(text: str, lookup: Callable[[str], str | None]) -> int | None:
    """Return the value of an expression, or None if it is not one of whole numbers that are known.

    >>> evaluate("N * 8 / 2", {"N": "4"}.get)
    16
    >>> evaluate("N > 1 ? 3 : 5", {"N": "4"}.get)
    3
    >>> evaluate("M + 1", {}.get) is None
    True
    """
    ternary = _TERNARY.fullmatch(text.strip())
    if ternary:
        condition = evaluate(ternary[1], lookup)
        return None if condition is None else evaluate(ternary[2] if condition else ternary[3], lookup)
    for pattern, python in _C:
        text = pattern.sub(python, text)
    try:
        found = _value(ast.parse(text.strip(), mode="eval").body, lookup)
    except (ValueError, TypeError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return found if abs(found) < LARGEST else None


def _value(node: ast.expr, lookup: Callable[[str], str | None]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return int(lookup(node.id) or "x")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        inner = _value(node.operand, lookup)
        return -inner if isinstance(node.op, ast.USub) else int(not inner)
    if isinstance(node, ast.BinOp):
        return _binary(node, lookup)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        return int(_COMPARE[type(node.ops[0])](_value(node.left, lookup), _value(node.comparators[0], lookup)))
    if isinstance(node, ast.BoolOp):
        values = [_value(one, lookup) for one in node.values]
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    raise ValueError("no arithmetic of whole numbers")


def _binary(node: ast.BinOp, lookup: Callable[[str], str | None]) -> int:
    one, two = _value(node.left, lookup), _value(node.right, lookup)
    if isinstance(node.op, ast.Pow) and 0 <= two <= 62 and abs(one) <= 2**16:
        return int(one**two)
    if isinstance(node.op, ast.LShift) and 0 <= two <= 62:
        return one << two
    if type(node.op) not in _BINARY or max(abs(one), abs(two)) > LARGEST:
        raise ValueError("no arithmetic of whole numbers")
    if isinstance(node.op, ast.FloorDiv):  # a shell rounds towards zero
        return int(abs(one) // abs(two) * (1 if one * two >= 0 else -1))
    return _BINARY[type(node.op)](one, two)
