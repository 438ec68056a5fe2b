"""Values of variables in a word: ``$X``, ``${X:-default}``, ``"${X[@]}"``, ``${#X[@]}``, ``${!X}``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.shell.words.fields import Piece
from planner.shell.words.patterns import changed
from planner.shell.words.syntax import source
from planner.shell.words.unknown import UNSET, is_marked
from planner.shell.words.variables import numbered

if TYPE_CHECKING:
    from tree_sitter import Node

    from planner.shell.words.expand import Expander

_ALL = ("@", "*")
_NAMES = ("variable_name", "special_variable_name", "subscript")
_CALLERS = "the caller gives it"
Value = str | tuple[str, ...] | None


def pieces(expander: Expander, node: Node) -> list[Piece]:
    """The parts of one expansion."""
    children = [child for child in node.children if child.type not in ("$", "${", "}")]
    prefix = children[0].type if children and children[0].type in ("!", "#") and len(children) > 1 else ""
    at = next((index for index, child in enumerate(children) if child.type in _NAMES), None)
    if at is None or at > 1:
        return [Piece(expander.unknown(node, "an expansion that lcplan does not read"), quoted=False)]
    name, rest = children[at], children[at + 1 :]
    if prefix:
        return [_piece(expander, node, _prefixed(expander, name, prefix=prefix))]
    value = _value(expander, name)
    if not rest:
        return [_piece(expander, node, value)]
    return _operated(expander, node, value=value, name=name, rest=rest)


def _operated(expander: Expander, node: Node, *, value: Value, name: Node, rest: list[Node]) -> list[Piece]:
    """An expansion with an operator."""
    operator, arguments = rest[0].type, rest[1:]
    empty = value is None or (operator.startswith(":") and value in ("", ()))
    if operator in (":-", "-", ":=", "=", ":+", "+"):
        given = operator.endswith("+")
        if empty == given:
            return [] if given else [_piece(expander, node, value)]
        filled = [piece for one in arguments for piece in _unquoted(expander, one)]
        if operator.endswith("=") and name.type == "variable_name":
            expander.variables.set(source(name), "".join(piece.joined for piece in filled))
        return filled
    if operator == ":":
        value = _sliced(expander, value, arguments)
    elif operator in (":?", "?"):
        value = None if empty else value
    elif value is not None and not operator.startswith("@"):
        value = _changed(value, operator, [expander.text(one) for one in arguments if one.is_named])
    return [_piece(expander, node, value)]


def _unquoted(expander: Expander, node: Node) -> list[Piece]:
    """The parts of a default: literal text splits at blanks, as the value that it replaces would."""
    if node.type == "concatenation":
        return [piece for child in node.children for piece in _unquoted(expander, child)]
    if node.type in ("word", "number", "regex"):
        return [Piece(piece.text, quoted=False) for piece in expander.pieces(node)]
    return expander.pieces(node)


def _changed(value: str | tuple[str, ...], operator: str, arguments: list[str]) -> Value:
    if any(map(is_marked, arguments)):
        return None
    if isinstance(value, str):
        return None if is_marked(value) else changed(value, operator, arguments)
    found = [None if is_marked(one) else changed(one, operator, arguments) for one in value]
    return None if None in found else tuple(one for one in found if one is not None)


def _sliced(expander: Expander, value: Value, arguments: list[Node]) -> Value:
    """``${X:start:length}`` of a text, or of the elements of an array."""
    numbers = [expander.number(expander.text(one)) for one in arguments if one.is_named]
    if value is None or not numbers or None in numbers or (isinstance(value, str) and is_marked(value)):
        return None
    start, length = numbers[0] or 0, numbers[1] if len(numbers) > 1 else None
    if isinstance(value, tuple) and source(arguments[0]) and start > 0 and expander.variables.positional is not None:
        start -= value == tuple(expander.variables.positional)  # $1 is the first of ${@:1}
    end = None if length is None else start + length if length >= 0 else length
    return value[start:end]


def _piece(expander: Expander, node: Node, value: Value) -> Piece:
    if value is None:
        name = source(node).removeprefix("$").removeprefix("{")
        return Piece(expander.unknown(node, _CALLERS if name[:1].isdigit() or name[:1] in "@*#" else UNSET), quoted=False)
    return Piece(value, quoted=False) if isinstance(value, str) else Piece(quoted=False, elements=value)


def _value(expander: Expander, name: Node) -> Value:
    """The value of a name, or of a subscript; None: not assigned in the file."""
    variables = expander.variables
    if name.type == "subscript":
        inner, index = name.child_by_field_name("name"), name.child_by_field_name("index")
        if inner is None or index is None:
            return None
        if source(index) in _ALL:
            elements = variables.elements(source(inner))
            return None if elements is None else tuple(elements)
        if source(inner) == "BASH_SOURCE":
            return expander.file
        return variables.get(source(inner), key_of(expander, index, array=source(inner)))
    return _named(expander, source(name))


def _named(expander: Expander, name: str) -> Value:
    positional = expander.variables.positional
    if name in _ALL or name == "#" or (name.isdecimal() and name != "0"):
        return None if positional is None else _positional(positional, name)
    own = {"0": expander.file, "BASH_SOURCE": expander.file, "?": "0"}
    return own[name] if name in own else expander.variables.get(name)


def _positional(words: list[str], name: str) -> Value:
    if name in _ALL:
        return tuple(words)
    if name == "#":
        return str(len(words))
    return words[int(name) - 1] if int(name) <= len(words) else ""


def key_of(expander: Expander, index: Node, *, array: str) -> str:
    """The key of an element: a number of a list, a word of a mapping."""
    text = expander.text(index)
    known = expander.variables.arrays.get(array, numbered([]))
    if text in known or text == "-1":
        return text
    number = expander.number(text)
    return text if number is None else str(number)


def _prefixed(expander: Expander, name: Node, *, prefix: str) -> Value:
    """``${#X}``, ``${#X[@]}``, ``${!X}`` and ``${!X[@]}``."""
    value = _value(expander, name)
    if prefix == "#":
        if value is None or (isinstance(value, str) and is_marked(value)):
            return None
        return str(len(value))
    if name.type == "subscript":
        inner = name.child_by_field_name("name")
        return tuple(expander.variables.arrays.get(source(inner), {})) if inner is not None else None
    return _named(expander, value) if isinstance(value, str) and not is_marked(value) else None
