"""The way through a script: assignments, branches, loops and functions are followed, commands are collected and not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import read_text
from planner.shell import assign
from planner.shell.commands import Command
from planner.shell.conditions import holds, matches
from planner.shell.words.expand import Expander
from planner.shell.words.substitutions import document_text
from planner.shell.words.syntax import parsed, source
from planner.shell.words.unknown import Word, cleaned, is_marked
from planner.shell.words.variables import merged

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_STEPS = 20_000
"""Statements of a script, with those of its loops."""
MOST_CALLS = 20
"""Calls of functions inside each other."""
_CALLERS = re.compile(r"\$\{?[#@*1-9]|\bgetopts\b")
"""A script's own arguments."""
Action = Callable[[], None]


class _LeavesError(Exception):
    """``exit``, ``return``, ``break`` or ``continue``."""


class _ExitsError(_LeavesError):
    pass


class _FailsError(_ExitsError):
    """``exit`` with an error: a value that its user has to fill in is missing, and the rest of the script runs with it."""


class _ReturnsError(_LeavesError):
    pass


class _LoopsError(_LeavesError):
    pass


_LEAVES = {"exit": _ExitsError, "return": _ReturnsError, "break": _LoopsError, "continue": _LoopsError}


class Run:
    """One script."""

    def __init__(self, expander: Expander, directives: tuple[str, ...] = ()) -> None:
        self.expander, self.directives = expander, directives
        self.commands: list[Command] = []
        self.unread: list[str] = []
        """Files that the script reads and that are not in its folder."""
        self._functions: dict[str, Node] = {}
        self._steps = self._calls = 0
        self._sourced: list[Path] = []

    def script(self, root: Node) -> None:
        """Follow a whole script."""
        try:
            self.statements(root.named_children)
        except _LeavesError:
            return

    def statements(self, nodes: Sequence[Node]) -> None:
        """Follow statements in their order."""
        for node in nodes:
            self.statement(node)

    def statement(self, node: Node) -> None:
        """Follow one statement."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise BadInputError(f"{self.expander.file}: more than {MOST_STEPS} statements; give the command itself")
        follow = _STATEMENTS.get(node.type)
        if follow is not None:
            follow(self, node)

    def ways(self, node: Node, actions: Sequence[Action]) -> None:
        """Follow each of several ways, where only a shell knows the right one, and continue after all of them."""
        before, after = self.expander.variables, []
        left: _LeavesError | None = None
        for action in actions:
            self.expander.variables = before.copy()
            try:
                action()
                after.append(self.expander.variables)
            except _LeavesError as error:
                left = error
        if not after and left is not None:
            raise left
        self.expander.variables = merged(after, self.expander.marks, line=self.expander.line(node))

    def call(self, name: str, arguments: list[str]) -> bool:
        """Follow a function of the script; false: no function has this name."""
        body = self._functions.get(name)
        if body is None or self._calls >= MOST_CALLS:
            return body is not None
        variables = self.expander.variables
        outer, variables.positional = variables.positional, arguments
        self._calls += 1
        try:
            self.statement(body)
        except _ReturnsError:
            pass
        finally:
            self._calls -= 1
            self.expander.variables.positional = outer
        return True

    def read(self, name: str) -> None:
        """Follow another script, if it is in this one's folder."""
        path = Path(name)
        beside = path if path.is_absolute() else Path(self.expander.file).parent / path
        if is_marked(name) or beside.suffix not in ("", ".sh", ".env", ".conf") or not beside.is_file():
            word = self.expander.marks.word(name)
            self.unread.append(word.text)
        elif beside not in self._sourced:
            self._sourced.append(beside)
            self.statements(parsed(cleaned(read_text(beside)), str(beside)).named_children)

    def evaluate(self, text: str) -> None:
        """Follow a text that the script runs as one (``eval``)."""
        self.statements(parsed(text, self.expander.file).named_children)

    def record(self, words: list[str], node: Node, *, before: dict[str, str], stdin: str | None = None) -> None:
        """Collect a command."""
        marks = self.expander.marks
        variables = self.expander.variables
        values = {**variables.values, **{name: " ".join(array.values()) for name, array in variables.arrays.items()}, **before}
        self.commands.append(
            Command(
                tuple(marks.word(word) for word in words),
                self.expander.line(node),
                {name: marks.word(value) for name, value in values.items()},
                self.directives,
                stdin=None if stdin is None else marks.word(stdin),
            )
        )


def _all(run: Run, node: Node) -> None:
    run.statements(node.named_children)


def _subshell(run: Run, node: Node) -> None:
    variables = run.expander.variables.copy()
    with suppress(_LeavesError):
        run.statements(node.named_children)
    run.expander.variables = variables


def _compound(run: Run, node: Node) -> None:
    if source(node).startswith("(("):
        assign.computed(run.expander, run.expander.arithmetic_text(node).removeprefix("((").removesuffix("))"))
    else:
        run.statements(node.named_children)


def _assignment(run: Run, node: Node) -> None:
    assign.variable(run.expander, node)


def _declaration(run: Run, node: Node) -> None:
    assign.declaration(run.expander, node)


def _unset(run: Run, node: Node) -> None:
    for one in node.named_children:
        run.expander.variables.unset(source(one))


def _function(run: Run, node: Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        run._functions[source(name)] = body


def _if(run: Run, node: Node) -> None:
    """An ``if`` with its ``elif`` parts, as far as conditions are known."""
    clauses = [child for child in node.children if child.type in ("elif_clause", "else_clause")]
    _clause(run, node, rest=clauses)


def _clause(run: Run, node: Node, *, rest: list[Node]) -> None:
    then = next((index for index, child in enumerate(node.children) if child.type == "then"), 0)
    tests = [child for child in node.children[:then] if child.is_named]
    body = [child for child in node.children[then + 1 :] if child.is_named and not child.type.startswith(("elif_", "else_"))]
    found = holds(run.expander, tests[-1]) if tests else None
    if found is not False and tests and tests[-1].type in ("command", "pipeline"):
        run.statement(tests[-1])  # `if torchrun ..; then`
    taken: Action = lambda: run.statements(body)  # noqa: E731
    other: Action = lambda: _otherwise(run, rest)  # noqa: E731
    if found is None:
        run.ways(node, (taken, other))
    else:
        _unless_it_fails(run, taken if found else other)


def _unless_it_fails(run: Run, action: Action) -> None:
    """Follow a branch; one that ends the script with an error is not taken."""
    before = run.expander.variables.copy()
    try:
        action()
    except _FailsError:
        run.expander.variables = before


def _otherwise(run: Run, rest: list[Node]) -> None:
    if rest and rest[0].type == "elif_clause":
        _clause(run, rest[0], rest=rest[1:])
    elif rest:
        run.statements(rest[0].named_children)


def _case(run: Run, node: Node) -> None:
    value = node.child_by_field_name("value")
    subject = run.expander.text(value) if value is not None else ""
    items = [child for child in node.named_children if child.type == "case_item"]
    if not is_marked(subject):
        chosen = next((item for item in items if matches(run.expander, item, subject=subject)), None)
        if chosen is not None:
            run.statements(_body(chosen))
        return
    ways: list[Action] = [lambda item=item: run.statements(_body(item)) for item in items]  # type: ignore[misc]
    run.ways(node, [*ways, lambda: None])


def _body(item: Node) -> list[Node]:
    end = next((index for index, child in enumerate(item.children) if child.type == ")"), 0)
    return [child for child in item.children[end + 1 :] if child.is_named]


def _for(run: Run, node: Node) -> None:
    name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if name is None or body is None:
        return
    values = node.children_by_field_name("value")
    if run.expander.variables.positional is None and all(_CALLERS.search(source(one)) for one in values):
        return  # the words of a caller, which there are none of
    for value in [field for one in values for field in run.expander.fields(one)]:
        run.expander.variables.set(source(name), value)
        try:
            run.statement(body)
        except _LoopsError:
            return


def _while(run: Run, node: Node) -> None:
    body, tests = node.child_by_field_name("body"), node.children_by_field_name("condition")
    known = holds(run.expander, tests[0]) if tests else None
    over_words = run.expander.variables.positional is None and any(_CALLERS.search(source(test)) for test in tests)
    if body is None or over_words or (known is False and not source(node).startswith("until")):
        return

    def once() -> None:
        try:
            run.statement(body)
        except _LoopsError:
            return

    run.ways(node, (once, lambda: None))


def _list(run: Run, node: Node) -> None:
    """``a && b`` and ``a || b``: a command is taken to succeed."""
    one, two = node.named_children[0], node.named_children[-1]
    tests = one.type in ("test_command", "negated_command")
    found = holds(run.expander, one) if tests else True
    run.statement(one)
    if one is two:
        return
    every = any(child.type == "&&" for child in node.children)
    if found is None:
        run.ways(node, (lambda: run.statement(two), lambda: None))
    elif found == every:
        _unless_it_fails(run, lambda: run.statement(two))


def _redirected(run: Run, node: Node) -> None:
    body = node.child_by_field_name("body")
    document = next((child for child in node.named_children if child.type == "heredoc_redirect"), None)
    here = next((child for child in node.named_children if child.type == "herestring_redirect"), None)
    text = document_text(run.expander, document) if document is not None else None
    if here is not None:
        text = run.expander.text(here.named_children[-1])
    if body is not None and body.type == "command":
        _command(run, body, stdin=text)
    elif body is not None:
        run.statement(body)
    if document is not None:  # `cmd <<EOF && other`: the rest of the line is inside the redirect
        rest = [child for child in document.named_children if child.type in ("command", "pipeline", "list")]
        run.statements(rest)


def _simple(run: Run, node: Node) -> None:
    here = next((child for child in node.named_children if child.type == "herestring_redirect"), None)
    _command(run, node, stdin=run.expander.text(here.named_children[-1]) if here is not None else None)


def _command(run: Run, node: Node, *, stdin: str | None) -> None:
    expander = run.expander
    before: dict[str, str] = {}
    for child in node.named_children:
        if child.type == "variable_assignment":
            before |= assign.before(expander, child)
    parts = [child for child in node.named_children if child.type not in ("variable_assignment", "herestring_redirect")]
    words = [
        field for part in parts for field in expander.fields(part.named_children[0] if part.type == "command_name" else part)
    ]
    if not words:
        return
    name, arguments = words[0], words[1:]
    if name in _LEAVES:
        raise _FailsError if name == "exit" and arguments[:1] not in ([], ["0"]) else _LEAVES[name]
    if run.call(name, arguments) or assign.builtin(
        expander, name, arguments=arguments, stdin=stdin, node=node, separator=before.get("IFS")
    ):
        return
    if name == "eval":
        run.evaluate(" ".join(arguments))
    elif name in ("source", ".") and arguments:
        run.read(arguments[0])
    else:
        run.record(words, node, before=before, stdin=stdin)


_STATEMENTS: dict[str, Callable[[Run, Node], None]] = {
    "variable_assignment": _assignment,
    "variable_assignments": _all,
    "declaration_command": _declaration,
    "unset_command": _unset,
    "command": _simple,
    "redirected_statement": _redirected,
    "pipeline": _all,
    "list": _list,
    "negated_command": _all,
    "subshell": _subshell,
    "compound_statement": _compound,
    "do_group": _all,
    "if_statement": _if,
    "case_statement": _case,
    "for_statement": _for,
    "c_style_for_statement": _while,
    "while_statement": _while,
    "function_definition": _function,
    "ERROR": _all,
}

__all__ = ["Run", "Word"]
