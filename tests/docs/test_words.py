"""The texts of the project keep to plain words: ``phrases.py`` has the list, ``words.py`` the search."""

import pytest
from phrases import ALLOWED
from words import HELP, PACKAGES, PAGES, ROOT, Text, code_texts, findings, main, texts_of


@pytest.mark.parametrize("name", [HELP, *PAGES, *PACKAGES])
def test_a_text_keeps_to_plain_words(name):
    assert [str(finding) for finding in findings(texts_of(name))] == []


@pytest.mark.parametrize("name", [HELP, *PAGES, *PACKAGES])
def test_there_is_something_to_search(name):
    assert sum(len(text.words.split()) for text in texts_of(name)) > 200


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        ("the weights of the next turn", "next turn"),
        ("rows that experts have room for", "room"),
        ("one lane waits", "lane"),
        ("the way home", "the way home"),
        ("the laws price it", "laws"),
        ("on which rung it is", "rung"),
        ("what an executable needs", "what"),
        ("the law beside the compile", "law|beside"),
        ("there is none", "is none"),
        ("281 tokens a second", "tokens a second"),
        ("the source says so", "says"),
        ("as it was told", "told"),
        ("the axis stands twice", "stands"),
        ("where an array lies", "lies"),
        ("those that fit", "those that"),
        ("attention alone", "alone"),
        ("after so many seconds", "so many"),
        ("the run goes on", "goes on"),
        ("predictions are held against measurements", "held against"),
        ("fp32 but for norms", "but for"),
        ("a rule and a way out", "way out"),
    ],
)
def test_a_phrase_is_found(words, phrase):
    assert [finding.phrase for finding in findings([Text("page", 1, words)])] == phrase.split("|")


@pytest.mark.parametrize(
    "words",
    [
        "it turns the mask off",
        "see `--moe-room-percent` and ``rung``",
        "remat=none",
        "What if a device had more memory",
        "What does a search print?",
        "a standalone program",
        "leave it alone",
        "the whole-hosts rule counts 64 tokens per step",
    ],
)
def test_plain_words_pass(words):
    assert list(findings([Text("page", 1, words)])) == []


def test_docstrings_begin_with_a_verb_or_a_noun():
    verbless = [Text("code.py", 7, "Of all rows.\n\nOf no row.", is_docstring=True), Text("code.py", 9, "Of all rows.")]
    assert [str(finding) for finding in findings(verbless)] == [
        "code.py:7: Of -> begin with a verb (Return ..) or the noun itself"
    ]


def test_docstrings_and_messages_of_code_are_read(tmp_path):
    path = ROOT / "tests" / "docs" / "phrases.py"
    read = list(code_texts(path))
    assert any(text.is_docstring and "Whether the pattern counts" in text.words for text in read)
    assert any(not text.is_docstring and "begin with a verb" in text.words for text in read)


def test_values_of_a_message_do_not_split_it(tmp_path, monkeypatch):
    monkeypatch.setattr("words.ROOT", tmp_path)
    (tmp_path / "code.py").write_text('x = 1\nmessage = f"the {x} devices that are said to fit"\n')
    assert [str(finding) for finding in findings(texts_of("code.py"))] == [
        "code.py:2: said -> states, shows, reports, names, means"
    ]


def test_the_exit_code_is_that_of_a_check(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("words.ROOT", tmp_path)
    (tmp_path / "good.md").write_text("A device has memory.\n\n```text\nwhat it says\n```\n")
    (tmp_path / "bad.md").write_text("A device\nhas room.\n")
    assert main(["bad.md"]) == 1
    assert capsys.readouterr().out == "bad.md:2: room -> capacity\n"
    assert main(["--count", "bad.md", "good.md"]) == 1
    assert capsys.readouterr().out == "   1 bad.md\n"
    assert main(["good.md"]) == 0


@pytest.mark.parametrize("entry", ALLOWED, ids=lambda entry: entry.context)
def test_every_exception_is_needed(entry):
    assert any(entry.context in text.words for name in (*PAGES, *PACKAGES, HELP) for text in texts_of(name))
