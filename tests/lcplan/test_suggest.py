"""Near names behind messages that say unknown."""

import pytest

from lcplan.formats.suggest import hint


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("contxt", ["context", "tensor"], "; did you mean 'context'?"),
        ("LLAMA3-8", ["llama3-8b", "qwen3-8b"], "; did you mean 'llama3-8b'?"),
        ("ring-zag", ["ring", "ring-zigzag", "ulysses"], "; did you mean 'ring-zigzag' or 'ring'?"),
        ("zzz", ["b", "a"], "; known: a, b"),
        ("zzz", [], ""),
        (
            "zzz",
            [f"name{i:02}" for i in range(14)],
            "; known: " + ", ".join(f"name{i:02}" for i in range(12)) + ", ... (14 in all)",
        ),
    ],
)
def test_the_way_out(word, known, expected):
    assert hint(word, known) == expected
