"""Words of a script as fields: unquoted text splits at blanks, and each element of an array is a field of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A part of a word: text, or the elements of an array."""

    text: str = ""
    quoted: bool = True
    elements: tuple[str, ...] | None = None

    @property
    def joined(self) -> str:
        """The part as one text."""
        return self.text if self.elements is None else " ".join(self.elements)

    def as_quoted(self) -> Piece:
        """Return the part as it is between double quotes."""
        return Piece(self.text, quoted=True, elements=self.elements)


def fields(pieces: Iterable[Piece]) -> list[str]:
    """Return the fields of one word.

    >>> fields([Piece("--a="), Piece("1 2", quoted=False)])
    ['--a=1', '2']
    >>> fields([Piece(elements=("--a", "x y"))])
    ['--a', 'x y']
    >>> fields([Piece("", quoted=False)])
    []
    """
    done: list[str] = []
    current: str | None = None
    for text, breaks in (part for piece in pieces for part in _parts(piece)):
        if not breaks:
            current = text if current is None else current + text
        elif current is not None:
            done.append(current)
            current = None
    return done if current is None else [*done, current]


def _parts(piece: Piece) -> list[tuple[str, bool]]:
    """Texts of a piece, and the breaks between fields."""
    if piece.elements is not None and piece.quoted:
        return _broken(list(piece.elements))
    if piece.elements is None and piece.quoted:
        return [(piece.text, False)]
    text = piece.joined
    found = _broken(text.split())
    before, after = [("", True)] * text[:1].isspace(), [("", True)] * text[-1:].isspace()
    return [*before, *found, *after]


def _broken(words: list[str]) -> list[tuple[str, bool]]:
    return [part for index, word in enumerate(words) for part in ([("", True)] * (index > 0) + [(word, False)])]
