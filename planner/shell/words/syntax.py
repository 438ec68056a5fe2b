"""The syntax tree of a shell script, from tree-sitter's grammar of bash."""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING

from lcplan.formats.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MOST_DEPTH = 150
"""Levels of a tree that the readers descend; scripts for people have about 20."""


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parsed(text: str, file: str) -> Node:
    """Return the tree of a script.

    Raises
    ------
    BadInputError
        A quote that is not closed, or more levels than a script has.
    """
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        _check_quotes(text, file)
    if _too_deep(root):
        raise BadInputError(
            f"{file}: more than {MOST_DEPTH} levels of quotes and brackets; this is no script of a training run"
        )
    return root


def _check_quotes(text: str, file: str) -> None:
    """Refuse a text whose quotes do not close, if the shell's own words are all that it has."""
    if "<<" in text:  # a here-document takes any quotes
        return
    try:
        shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInputError(f"{file}: not words as a shell reads them: {error}") from None


def _too_deep(root: Node) -> bool:
    level, depth = [root], 0
    while level and depth <= MOST_DEPTH:
        level, depth = [child for node in level for child in node.named_children], depth + 1
    return bool(level)


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def source(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode()


def line_of(node: Node) -> int:
    """The line of a node, from 1."""
    return node.start_point[0] + 1
