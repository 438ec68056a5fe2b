"""Expansion of words: variables, defaults, arrays, arithmetic and quotes. Nothing is run; the rest is marked as unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lcplan.formats.errors import BadInputError
from planner.shell.words import parameters
from planner.shell.words.arithmetic import evaluate
from planner.shell.words.fields import Piece, fields
from planner.shell.words.substitutions import output_of
from planner.shell.words.syntax import line_of, source
from planner.shell.words.unknown import Marks, is_marked
from planner.shell.words.variables import Variables

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_CHARACTERS = 2**20
"""Length of a value; a script that doubles a variable makes gigabytes in 40 lines."""
_ESCAPED_IN_QUOTES = '$`"\\\n'
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Expander:
    """Expands the words of one script under the variables of the moment."""

    def __init__(self, marks: Marks, file: str, *, first_line: int = 1) -> None:
        self.marks, self.file = marks, file
        self.variables = Variables()
        self._first_line = first_line
        """The line of the whole file in which this text begins."""

    def line(self, node: Node) -> int:
        """The line of a node in the whole file."""
        return line_of(node) + self._first_line - 1

    def unknown(self, node: Node, why: str) -> str:
        """A mark for a node."""
        return self.marks.mark(source(node), self.line(node), why=why)

    def fields(self, node: Node) -> list[str]:
        """The fields that a word becomes."""
        return self._bounded(fields(self.pieces(node)))

    def text(self, node: Node) -> str:
        """The word as one text, as the value of an assignment is."""
        return self._bounded(["".join(piece.joined for piece in self.pieces(node))])[0]

    def _bounded(self, values: list[str]) -> list[str]:
        if sum(map(len, values)) > MOST_CHARACTERS:
            raise BadInputError(f"{self.file}: a word of more than {MOST_CHARACTERS // 2**20} Mi characters")
        return values

    def pieces(self, node: Node) -> list[Piece]:
        """The parts of a word."""
        found = _READERS.get(node.type)
        return found(self, node) if found is not None else [Piece(_unescaped(source(node)))]

    def between(self, nodes: list[Node], *, start: int, end: int, whole: Node) -> list[Piece]:
        """The parts of a quoted text from byte ``start`` to ``end`` of ``whole``, whose expansions are ``nodes``."""
        data, found = whole.text or b"", list[Piece]()
        for node in nodes:
            found.append(Piece(_unquoted(data[start : node.start_byte - whole.start_byte].decode())))
            found += [piece.as_quoted() for piece in self.pieces(node)]
            start = node.end_byte - whole.start_byte
        return [*found, Piece(_unquoted(data[start:end].decode()))]

    def heredoc(self, body: Node, *, literal: bool) -> str:
        """The text of a here-document, whose expansions are left alone where its end is quoted."""
        if literal:
            return source(body)
        nodes = [node for node in body.named_children if node.type in _EXPANSIONS]
        pieces = self.between(nodes, start=0, end=len(body.text or b""), whole=body)
        return self._bounded(["".join(piece.joined for piece in pieces)])[0]

    def number(self, text: str) -> int | None:
        """The value of an arithmetic expression; None: unknown."""
        return None if is_marked(text) else evaluate(text, self.variables.get)

    def arithmetic_text(self, node: Node) -> str:
        """The text of an arithmetic expression, with its expansions in place."""
        nodes = _expansions_in(node)
        return "".join(piece.joined for piece in self.between(nodes, start=0, end=len(node.text or b""), whole=node))


_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")


def _expansions_in(node: Node) -> list[Node]:
    """The outermost expansions inside a node, in order."""
    found = []
    for child in node.children:
        found += [child] if child.type in _EXPANSIONS else _expansions_in(child)
    return found


def _string(self: Expander, node: Node) -> list[Piece]:
    nodes = [child for child in node.named_children if child.type in _EXPANSIONS]
    pieces = self.between(nodes, start=1, end=len(node.text or b"") - 1, whole=node)
    filled = [piece for piece in pieces if piece.elements is not None or piece.text]
    return filled or [Piece("")]


def _concatenation(self: Expander, node: Node) -> list[Piece]:
    return [piece for child in node.children for piece in self.pieces(child)]


def _arithmetic(self: Expander, node: Node) -> list[Piece]:
    inner = self.arithmetic_text(node)
    number = self.number(inner.removeprefix("$((").removeprefix("$[").removesuffix("))").removesuffix("]"))
    return [Piece(self.unknown(node, "its numbers are not all known") if number is None else str(number), quoted=False)]


def _command(self: Expander, node: Node) -> list[Piece]:
    output = output_of(self, node)
    return [Piece(self.unknown(node, "a command's output") if output is None else output, quoted=False)]


def _raw(_: Expander, node: Node) -> list[Piece]:
    return [Piece(source(node)[1:-1])]


def _ansi(_: Expander, node: Node) -> list[Piece]:
    parts = source(node)[2:-1].split("\\\\")
    for sign, means in _ANSI.items():
        parts = [part.replace(f"\\{sign}", means) for part in parts]
    return [Piece("\\".join(parts))]


def _translated(self: Expander, node: Node) -> list[Piece]:
    return [piece for child in node.named_children for piece in self.pieces(child)]


def _process(self: Expander, node: Node) -> list[Piece]:
    return [Piece(self.unknown(node, "a command's output"))]


_READERS: dict[str, Callable[[Expander, Node], list[Piece]]] = {
    "string": _string,
    "concatenation": _concatenation,
    "arithmetic_expansion": _arithmetic,
    "command_substitution": _command,
    "raw_string": _raw,
    "ansi_c_string": _ansi,
    "translated_string": _translated,
    "process_substitution": _process,
    "simple_expansion": parameters.pieces,
    "expansion": parameters.pieces,
}


def _unescaped(text: str) -> str:
    """Unquoted text without its backslashes."""
    return _without_escapes(text, None)


def _unquoted(text: str) -> str:
    """Text between double quotes without the backslashes that the shell removes there."""
    return _without_escapes(text, _ESCAPED_IN_QUOTES)


def _without_escapes(text: str, only: str | None) -> str:
    if "\\" not in text:
        return text
    found, index = [], 0
    while index < len(text):
        escaped = text[index] == "\\" and index + 1 < len(text) and (only is None or text[index + 1] in only)
        sign = text[index + 1] if escaped else text[index]
        found.append("" if escaped and sign == "\n" else sign)
        index += 2 if escaped else 1
    return "".join(found)
