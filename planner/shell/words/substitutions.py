"""Outputs of commands that need no command: ``$(dirname "$0")``, ``$(echo $X)``, ``$(expr $A \\* 2)``, ``$(cat <<EOF ..)``."""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

from planner.shell.words.syntax import source
from planner.shell.words.unknown import is_marked

if TYPE_CHECKING:
    from tree_sitter import Node

    from planner.shell.words.expand import Expander

_OWN_FOLDER = re.compile(r"""dirname\s[^)]*(?:BASH_SOURCE|\$\{?0)[^)]*\)"?(/[^"&)\s]*)?""")
_MOST_NUMBERS = 1000


def output_of(expander: Expander, node: Node) -> str | None:
    """Return the output of a substituted command, or None if only a shell knows it."""
    text = source(node)
    own = _OWN_FOLDER.search(text)
    if own and text.count("dirname") == 1:
        return normpath(f"{Path(expander.file).absolute().parent}{own[1] or ''}")
    inner = node.named_children
    if len(inner) != 1:
        return None
    if inner[0].type == "redirected_statement":
        return _document(expander, inner[0])
    if inner[0].type == "pipeline":
        return _computed(expander, inner[0])
    return _plain(expander, inner[0]) if inner[0].type == "command" else None


def _plain(expander: Expander, command: Node) -> str | None:
    words = [field for one in command.named_children for field in expander.fields(_word(one))]
    if not words or any(map(is_marked, words)):
        return None
    name, arguments = words[0], [word for word in words[1:] if word not in ("-n", "-e")]
    if name == "echo":
        return " ".join(arguments)
    if name in ("basename", "dirname") and len(arguments) == 1:
        path = Path(arguments[0])
        return path.name if name == "basename" else str(path.parent)
    if name == "expr":
        number = expander.number(" ".join(arguments))
        return None if number is None else str(number)
    if name == "seq" and arguments and all(one.isdecimal() for one in arguments) and len(arguments) <= 2:
        first, last = (1, int(arguments[0])) if len(arguments) == 1 else (int(arguments[0]), int(arguments[1]))
        return " ".join(map(str, range(first, last + 1))) if last - first < _MOST_NUMBERS else None
    return None


def _word(node: Node) -> Node:
    return node.named_children[0] if node.type == "command_name" else node


def _document(expander: Expander, statement: Node) -> str | None:
    """``cat <<EOF``."""
    body = statement.child_by_field_name("body")
    document = next((one for one in statement.named_children if one.type == "heredoc_redirect"), None)
    if body is None or source(body) != "cat" or document is None:
        return None
    return document_text(expander, document)


def document_text(expander: Expander, document: Node) -> str:
    """The text of a here-document."""
    start = next((source(one) for one in document.named_children if one.type == "heredoc_start"), "")
    body = next((one for one in document.named_children if one.type == "heredoc_body"), None)
    return "" if body is None else expander.heredoc(body, literal=any(sign in start for sign in "'\"\\"))


def _computed(expander: Expander, pipeline: Node) -> str | None:
    """``echo "8 * 4" | bc``."""
    parts = pipeline.named_children
    if len(parts) != 2 or source(parts[1]).strip() not in ("bc", "bc -l") or parts[0].type != "command":
        return None
    text = _plain(expander, parts[0])
    number = None if text is None else expander.number(text)
    return None if number is None else str(number)
