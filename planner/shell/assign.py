"""Assignments of a script, by ``=`` and by commands of the shell itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.shell.words.expand import Expander
from planner.shell.words.parameters import key_of
from planner.shell.words.syntax import names, source
from planner.shell.words.variables import numbered

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPUTED = re.compile(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=(?!=)(.*)", re.DOTALL)
_STEP = re.compile(r"\s*(?:([A-Za-z_]\w*)(\+\+|--)|(\+\+|--)([A-Za-z_]\w*))\s*")
_IDLE = names("set shopt trap ulimit cd pushd popd mkdir echo true : umask wait sleep module alias hash")
"""Commands that neither assign nor train."""


def variable(expander: Expander, node: Node) -> None:
    """``X=value``, ``X+=value``, ``X=( .. )`` and ``X[i]=value``."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    appends = any(child.type == "+=" for child in node.children)
    if name is None:
        return
    variables = expander.variables
    if name.type == "subscript":
        inner, index = name.child_by_field_name("name"), name.child_by_field_name("index")
        if inner is not None and index is not None and value is not None:
            array = variables.arrays.get(source(inner), {})
            variables.set_array(source(inner), {**array, key_of(expander, index, array=source(inner)): expander.text(value)})
    elif value is not None and value.type == "array":
        variables.set_array(source(name), _array(expander, value), appends=appends)
    else:
        variables.set(source(name), "" if value is None else expander.text(value), appends=appends)


def _array(expander: Expander, node: Node) -> dict[str, str]:
    """The elements of ``( .. )``, where some may give their own key."""
    found: dict[str, str] = {}
    for child in node.named_children:
        text = source(child)
        key, closes, value = text.removeprefix("[").partition("]=")
        if text.startswith("[") and closes:
            inner = [one for one in child.named_children if one.type in ("string", "expansion", "simple_expansion")]
            found[key.strip("\"'")] = expander.text(inner[-1]) if inner and value[:1] in '"$' else value.strip("'")
        elif child.type != "comment":
            fields = expander.fields(child)
            found |= {str(len(found) + index): field for index, field in enumerate(fields)}
    return found


def before(expander: Expander, node: Node) -> dict[str, str]:
    """An assignment before a command, which holds for that command."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "variable_name":
        return {}
    return {source(name): "" if value is None else expander.text(value)}


def declaration(expander: Expander, node: Node) -> None:
    """``export``, ``declare``, ``local``, ``readonly``."""
    exports = node.children[0].type == "export" or any(source(child) == "-x" for child in node.named_children)
    for child in node.named_children:
        if child.type == "variable_assignment":
            variable(expander, child)
            name = child.child_by_field_name("name")
        else:
            name = child if child.type == "variable_name" else None
        if exports and name is not None:
            expander.variables.exported.add(source(name))


def computed(expander: Expander, text: str) -> None:
    """``(( X = Y * 2 ))`` and ``let X=Y*2``."""
    for part in text.split(","):
        step, match = _STEP.fullmatch(part), _COMPUTED.fullmatch(part)
        if step:
            name, sign = step[1] or step[4], (step[2] or step[3])[0]
            number = expander.number(f"{name} {sign} 1")
        elif match:
            name = match[1]
            number = expander.number(f"{name} {match[2]} ({match[3]})" if match[2] else match[3])
        else:
            continue
        value = expander.marks.mark(text, 0, why="its numbers are not all known") if number is None else str(number)
        expander.variables.set(name, value)


def _read(expander: Expander, names: list[str], *, stdin: str | None, node: Node, separator: str | None) -> None:
    """``read A B C``: the fields of a line, the last name with the rest of them."""
    variables = expander.variables
    if stdin is None:
        for name in names:
            variables.set(name, expander.unknown(node, "it is read when it runs"))
        return
    sign = separator or variables.get("IFS")
    parts = (
        stdin.strip("\n").split(sign if sign and sign.strip() else None, len(names) - 1)
        if len(names) > 1
        else [stdin.strip("\n")]
    )
    for index, name in enumerate(names):
        variables.set(name, parts[index] if index < len(parts) else "")


def builtin(
    expander: Expander, name: str, *, arguments: list[str], stdin: str | None, node: Node, separator: str | None = None
) -> bool:
    """Follow a command of the shell itself; false: the command neither assigns nor is idle here."""
    variables = expander.variables
    words = [word for word in arguments if word and not word.startswith("-")]
    if name == "set" and "--" in arguments:
        variables.positional = arguments[arguments.index("--") + 1 :]
    elif name == "shift" and variables.positional is not None:
        variables.positional = variables.positional[int(arguments[0]) if arguments and arguments[0].isdecimal() else 1 :]
    elif name == "read" and words:
        _read(expander, words, stdin=stdin, node=node, separator=separator)
    elif name in ("mapfile", "readarray") and words:
        lines = [expander.unknown(node, "it is read when it runs")] if stdin is None else stdin.strip("\n").split("\n")
        variables.set_array(words[-1], numbered(lines))
    elif name == "printf" and arguments[:1] == ["-v"] and len(arguments) > 1:
        variables.set(arguments[1], expander.unknown(node, "a command's output"))
    elif name == "let":
        for argument in arguments:
            computed(expander, argument)
    else:
        return name in _IDLE or name == "shift"
    return True
