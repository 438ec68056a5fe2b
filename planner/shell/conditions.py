"""Conditions of a script: true, false, or unknown where they ask about files, programs or the user's environment."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

from planner.shell.words.expand import Expander
from planner.shell.words.syntax import names, source
from planner.shell.words.unknown import UNSET, is_marked

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBERS: dict[str, Callable[[int, int], bool]] = {"-eq": eq, "-ne": ne, "-lt": lt, "-le": le, "-gt": gt, "-ge": ge}
_WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "arithmetic_expansion extglob_pattern regex"
)
_BRACKETS = ("[[", "]]", "[", "]", "((", "))", "(", ")")


def holds(expander: Expander, node: Node) -> bool | None:
    """Whether a test holds; None: unknown."""
    if node.type in _WORDS:
        text = _text(expander, node)
        return None if text is None else bool(text)
    reader = _READERS.get(node.type)
    if reader is not None:
        return reader(expander, node)
    return {"true": True, ":": True, "false": False}.get(source(node).strip())


def _negated(expander: Expander, node: Node) -> bool | None:
    inner = holds(expander, node.named_children[-1])
    return None if inner is None else not inner


def _bracketed(expander: Expander, node: Node) -> bool | None:
    if source(node).startswith("(("):
        number = expander.number(expander.arithmetic_text(node).removeprefix("((").removesuffix("))"))
        return None if number is None else number != 0
    inside = [child for child in node.children if child.type not in _BRACKETS]
    return holds(expander, inside[0]) if len(inside) == 1 else None


def _listed(expander: Expander, node: Node) -> bool | None:
    one, two = node.named_children[0], node.named_children[-1]
    return _both(expander, one, two, every=any(child.type == "&&" for child in node.children))


def _text(expander: Expander, node: Node) -> str | None:
    """The word, in which a variable that the file does not set is empty, as its defaults have it; None: unknown."""
    text = expander.marks.without(expander.text(node), why=UNSET)
    return None if is_marked(text) else text


def _both(expander: Expander, one: Node, two: Node, *, every: bool) -> bool | None:
    first, second = holds(expander, one), holds(expander, two)
    decides = not every
    if decides in (first, second):
        return decides
    return None if None in (first, second) else every


def _binary(expander: Expander, node: Node) -> bool | None:
    left, sign, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
    if left is None or sign is None or right is None:
        return None
    operator = source(sign)
    if operator in ("&&", "||"):
        return _both(expander, left, right, every=operator == "&&")
    one, two = _text(expander, left), _text(expander, right)
    if one is None or two is None:
        return None
    if operator in ("==", "=", "!="):
        literal = right.type in ("string", "raw_string")
        return (one == two if literal else fnmatchcase(one, two)) == (operator != "!=")
    if operator in _NUMBERS:
        numbers = expander.number(one), expander.number(two)
        return None if numbers[0] is None or numbers[1] is None else _NUMBERS[operator](numbers[0], numbers[1])
    return {"<": one < two, ">": one > two}.get(operator)


def _unary(expander: Expander, node: Node) -> bool | None:
    if node.children[0].type == "!":
        return _negated(expander, node)
    operator, operand = source(node.children[0]), node.named_children[-1]
    if operator not in ("-z", "-n"):
        return None
    text = _text(expander, operand)
    return None if text is None else (text == "") == (operator == "-z")


_READERS: dict[str, Callable[[Expander, Node], bool | None]] = {
    "negated_command": _negated,
    "test_command": _bracketed,
    "parenthesized_expression": _bracketed,
    "compound_statement": _bracketed,
    "list": _listed,
    "binary_expression": _binary,
    "unary_expression": _unary,
}


def matches(expander: Expander, item: Node, *, subject: str) -> bool:
    """Whether one item of a ``case`` takes the subject."""
    return any(fnmatchcase(subject, expander.text(value)) for value in item.children_by_field_name("value"))
