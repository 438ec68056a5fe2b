"""Parts of a script's words that only a shell on the user's machine knows: each is marked, carried along and named."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Characters for private use, which no script has: one mark is an index between the two."""
UNSET = "not set in this file"
"""Why a variable is unknown that only the user's environment may have."""
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


@dataclass(frozen=True)
class Unknown:
    """One part of a word that the file does not fix."""

    text: str
    """The script's own spelling: ``$HOME``, ``$(date)``."""
    line: int
    why: str

    @property
    def words(self) -> str:
        """The text, its line and the reason."""
        return f"{self.text} in line {self.line} ({self.why})"


@dataclass(frozen=True)
class Word:
    """A word of a command. ``text`` has the parts that are unknown as the script writes them."""

    text: str
    unknown: tuple[Unknown, ...] = ()


@dataclass
class Marks:
    """The unknown parts of one script, by their marks in its values."""

    found: list[Unknown] = field(default_factory=list)

    def mark(self, text: str, line: int, *, why: str) -> str:
        """Return a mark for an unknown part."""
        self.found.append(Unknown(text.strip() if len(text) <= 80 else f"{text[:77].strip()}...", line, why))
        return f"{_OPEN}{len(self.found) - 1}{_CLOSE}"

    def without(self, text: str, *, why: str) -> str:
        """Return the text without the marks that are there for one reason."""
        return _MARK.sub(lambda match: "" if self.found[int(match[1])].why == why else match[0], text)

    def word(self, text: str) -> Word:
        """Return a word in which marks are written out again."""
        unknown = tuple(dict.fromkeys(self.found[int(index)] for index in _MARK.findall(text)))
        return Word(_MARK.sub(lambda match: self.found[int(match[1])].text, text), unknown)


def is_marked(text: str) -> bool:
    """Whether a part of the text is unknown."""
    return _OPEN in text


_BARE_LIST = re.compile(r"^([ \t]*--[\w-]+[ \t]+)(\([^\s'\"`$\\]*)(?=[ \t]*\\?$)", re.MULTILINE)


def cleaned(text: str) -> str:
    """Return a file's text without characters that are used for marks, and with Unix line ends.

    A value in parentheses on a line with only its argument is quoted: files of arguments have lists in this form
    (``--moe-layer-freq ([0]+[1])*14``), which a shell would refuse.
    """
    plain = text.replace("\r\n", "\n").replace(_OPEN, "").replace(_CLOSE, "")
    return _BARE_LIST.sub(r"\1'\2'", plain)
