"""Search texts for the words of ``phrases.py``: ``python tests/docs/words.py planner/export docs README.md help``.

An argument is a folder, a Python file, a Markdown page, a template, or ``help`` for the printed help of every command.
Without an argument everything is searched. Each finding is printed as ``file:line: phrase -> better``; the exit code is 1
if there is one. ``--count`` prints the number of findings per folder instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from phrases import ALLOWED, PHRASES

ROOT = Path(__file__).parents[2]
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
HELP = "help"
MESSAGE = re.compile(r"[A-Za-z,;]+ [a-z]+ [a-z]+")
"""The shortest string literal that is read as a message: three words, the last two in lower case."""


@dataclass(frozen=True)
class Text:
    """A passage with the file and the line at which it begins."""

    file: str
    line: int
    words: str
    is_docstring: bool = False


@dataclass(frozen=True)
class Finding:
    """A phrase that a passage contains."""

    file: str
    line: int
    phrase: str
    better: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.phrase} -> {self.better}"


def findings(texts: Iterator[Text]) -> Iterator[Finding]:
    """Every phrase of the list in every passage, at most once per line and phrase."""
    for text in texts:
        begins = True
        for number, line in enumerate(_prose(text.words).split("\n")):
            for phrase in PHRASES:
                if phrase.only_first and not (begins and text.is_docstring):
                    continue
                hit = phrase.found(line)
                if hit and not _allowed(line, hit):
                    yield Finding(text.file, text.line + number, hit[0].strip(), phrase.better)
            begins = begins and not line.strip()


def _allowed(line: str, hit: re.Match[str]) -> bool:
    around = ((found.start(), found.end()) for entry in ALLOWED for found in re.finditer(re.escape(entry.context), line))
    return any(start <= hit.start() and hit.end() <= end for start, end in around)


def _prose(words: str) -> str:
    """The passage with code in ticks blanked out; its lines keep their number."""
    return re.sub(r"``[^`]*``|`[^`]*`", lambda code: re.sub(r"[^\n]", "_", code[0]), words)


def texts_of(name: str) -> Iterator[Text]:
    """The passages of a folder, a file, or the printed help."""
    path = ROOT / name
    if name == HELP:
        yield from help_texts()
    elif path.is_dir():
        for file in sorted(file for ending in ("*.py", "*.md", "*.j2") for file in path.rglob(ending)):
            yield from texts_of(str(file.relative_to(ROOT)))
    elif path.suffix == ".md":
        yield from page_texts(path)
    elif path.suffix == ".py":
        yield from code_texts(path)
    elif path.suffix == ".j2":
        yield template_text(path)
    else:
        raise SystemExit(f"{name}: give a folder, a Python file, a Markdown page, a template or '{HELP}'")


def page_texts(path: Path) -> Iterator[Text]:
    """The prose of a page: no code blocks, no addresses of links, no comments; of a changelog only the newest section."""
    source = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":
        source = "## ".join(source.split("\n## ")[:2])
    blank = re.compile(r"^( *)```.*?^ *```$|<!--.*?-->|\]\([^)]*\)|^(?: {4}.*\n)+", re.MULTILINE | re.DOTALL)
    prose = blank.sub(lambda block: "\n" * block[0].count("\n"), source)
    yield Text(str(path.relative_to(ROOT)), 1, prose)


def template_text(path: Path) -> Text:
    """The words of an HTML template, without its tags and its expressions."""
    tags = re.compile(r"<[^>]*>|\{[{%#].*?[}%#]\}", re.DOTALL)
    words = tags.sub(lambda tag: "\n" * tag[0].count("\n"), path.read_text(encoding="utf-8"))
    return Text(str(path.relative_to(ROOT)), 1, words)


def code_texts(path: Path) -> Iterator[Text]:
    """The docstrings of a module (of fields too) and its string literals that are messages."""
    tree, file = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT))
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if node in docstrings and isinstance(node.value, str):
            yield Text(file, node.lineno, node.value, is_docstring=True)
        elif isinstance(node, ast.JoinedStr | ast.Constant) and node not in inside:
            words = _literal(node)
            if words is not None and MESSAGE.search(words):
                yield Text(file, node.lineno, words.replace("\n", " "))


def _literal(node: ast.JoinedStr | ast.Constant) -> str | None:
    """The text of a literal; a value inside an f-string is ``{}``."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def help_texts() -> Iterator[Text]:
    """The help that every command prints."""
    import click

    from planner.cli.main import COMMANDS, cli

    names = cli.context_settings["help_option_names"]  # a command keeps the first help option that it makes
    context = click.Context(cli, info_name="lcplan", terminal_width=200, max_content_width=200, help_option_names=names)
    yield Text("lcplan --help", 1, cli.get_help(context))
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=200, max_content_width=200)
        yield Text(f"lcplan {name} --help", 1, command.get_help(inner))


def main(names: list[str]) -> int:
    sys.path.insert(0, str(ROOT))
    searched = [name.rstrip("/") for name in names if name != "--count"] or [*PAGES, *PACKAGES, HELP]
    found = [finding for name in searched for finding in findings(texts_of(name))]
    if "--count" in names:
        counts = Counter("/".join(finding.file.split("/")[:2]) for finding in found)
        print("\n".join(f"{count:4} {folder}" for folder, count in counts.most_common()))
    elif found:
        print("\n".join(map(str, found)))
    print(f"{len(found)} findings", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
