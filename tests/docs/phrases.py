"""The words that this project does not use: each with a better one and a reason, and the exceptions with theirs.

``words.py`` searches for them. To forbid another word, add a line to ``PHRASES``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = (
    "step|device|layer|token|second|sequence|rank|row|line|table|microbatch|device-hour|call|sample|host|head|"
    "machine|kind|page|topic|file|process|point|job|axis|iteration|score|source|trainer|chip|node|op|hop"
)
COUNTED = (
    "tokens|sequences|bytes|gib|mib|gb|flop/s|tflop/s|flop|seconds|calls|dollars|rows?|norms|terms|cores|gathers|"
    "scatters?|messages|microbatches|us|ms|s|[a-z]+_s|percent|ids|ranks"
)
AFTER_NONE = (
    "of|is|are|has|have|that|where|in|does|do|can|could|was|were|will|would|may|at|with|takes?|for|below|reads?|other|yet"
)
BEFORE_NONE = (
    "is|are|has|have|if|or|be|was|than|and|but|with|needs?|takes?|reads?|where|makes?|sees?|finds?|then|on|to|of|leaves?"
)


@dataclass(frozen=True)
class Phrase:
    """A pattern that no text contains, its replacement, and the reason."""

    pattern: str
    better: str
    why: str
    only_first: bool = False
    """Whether the pattern counts only where a docstring begins."""

    def found(self, text: str) -> re.Match[str] | None:
        compiled = re.compile(self.pattern, re.IGNORECASE)
        return compiled.match(text) if self.only_first else compiled.search(text)


@dataclass(frozen=True)
class Allowed:
    """A text that may contain a phrase: the words around it, and the reason."""

    context: str
    why: str


def word(words: str) -> str:
    """A pattern of whole words that are no part of an option or an identifier."""
    return rf"(?<![\w\-./=])(?:{words})(?![\w\-/=])"


PRIVATE = "a private term; readers know the standard one"
TIC = "a habit of translated text; the plain word is understood at once"
VERBLESS = "a docstring starts with a verb or a complete noun phrase"

PHRASES = (
    Phrase(
        rf"\b(?:a|one|each|every|next|first|last|this|per|same|\d+|two|three|many|several|its|of) turns?\b"
        rf"|{word('turns? (?:of|over)')}|'s turns?\b|\bturn (?:and|is|has|holds|takes)\b",
        "iteration (of the layer loop)",
        PRIVATE,
    ),
    Phrase(word("rooms?"), "capacity", PRIVATE),
    Phrase(word("lanes?"), "direction(s)", PRIVATE),
    Phrase(
        r"\b(?:there and back|(?:the )?way (?:home|back|there)|(?:sent|goes?|comes?|travels?) home)\b",
        "dispatch, combine",
        PRIVATE,
    ),
    Phrase(word("laws?"), "cost model", PRIVATE),
    Phrase(word("rungs?"), "evidence level", "a private term; `rung` is the key in JSON and goes in code ticks"),
    Phrase(r"(?<![\w\-])what\b(?! if\b)(?!-)(?!'s\b)(?![^.!?:]*\?)", "name the thing, or use how, which, the ..", TIC),
    Phrase(word("beside"), "next to, besides, in addition to, with, during", TIC),
    Phrase(
        rf"\bNone of\b|(?-i:\bnone (?:{AFTER_NONE})\b|\b(?:{BEFORE_NONE}) none\b(?![-=\w]))",
        "no .., not one, zero",
        TIC,
    ),
    Phrase(rf"\b(?:{COUNTED}) an? (?:{UNITS})\b|\bone [a-z]+ an? (?:{UNITS})\b", "per", "'per' is the word for a rate"),
    Phrase(word("says?|said|saying"), "states, shows, reports, names, means", "only people say things"),
    Phrase(word("tells?|told|telling"), "reports, shows, is given, distinguishes", "only people tell things"),
    Phrase(word("stands?|stood|standing"), "is, appears, is given", "things do not stand"),
    Phrase(word("lies?|lying|lay(?! (?:a|the|this|out))"), "is, is stored", "things do not lie"),
    Phrase(r"\bthose (?:that|which|who|with|in|where|by|on|as|it)\b", "the ..s that (repeat the noun)", TIC),
    Phrase(r"(?<!leave )(?<!leaves )(?<!leave it )(?<!leaves it )(?<!leave them )(?<!left )\balone\b", "only", TIC),
    Phrase(r"\bso many\b", "this many, that many", TIC),
    Phrase(r"\bgo(?:es)? on\b|\bwent on\b", "continues, resumes", TIC),
    Phrase(r"\b(?:held?|holds?|holding) (?:[\w.'\-]+ ){0,4}?(?:against|to it)\b", "compared with, checked against", TIC),
    Phrase(r"\bbut for\b", "except", TIC),
    Phrase(r"\bas ever\b", "unchanged", TIC),
    Phrase(r"\banew\b", "again", TIC),
    Phrase(r"\bseldom\b", "rarely", TIC),
    Phrase(r"\b(?:and|or) the(?:ir)? likes?\b", "and similar ..", TIC),
    Phrase(r"\bways? out\b", "a fix, an alternative", PRIVATE),
    Phrase(
        r"(?:Of|As|By|From|With|For|In|At|On|To|Where|What|That|Those|Than|Whose|Over|Under|But|And|Or) ",
        "begin with a verb (Return ..) or the noun itself",
        VERBLESS,
        only_first=True,
    ),
)

ALLOWED = (
    Allowed("whatif", "the name of a command"),
    Allowed("What if", "the name of a page and a command"),
    Allowed("Scaling Laws for Neural Language Models", "the title of a paper"),
    Allowed("lanes of a TPU", "the columns of its vector unit"),
    Allowed("a TPU's lanes", "the columns of its vector unit"),
    Allowed("the lane width of a TPU", "the columns of its vector unit"),
    Allowed("lanes that splash's tiles are made of", "the columns of a TPU's vector unit"),
)
