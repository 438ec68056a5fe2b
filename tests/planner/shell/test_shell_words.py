"""Words of scripts: what a shell would make of them, without a shell."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.shell.script import read_script


def words(text):
    """The words of the last command."""
    return read_script(text, "run.sh").commands[-1].texts


@pytest.mark.parametrize(
    ("before", "word", "found"),
    [
        ("A='x y'", '"$A" $A', ("x y", "x", "y")),
        ("A=(--b 'c d'\n  --e # a comment\n)", '"${A[@]}"', ("--b", "c d", "--e")),
        ("A=(--b 'c d')", "${A[@]}", ("--b", "c", "d")),
        ("A=()", 'x "${A[@]}"', ("x",)),
        ("A=(1); A+=(2 3)", "${A[*]} ${#A[@]} ${A[1]}", ("1", "2", "3", "3", "2")),
        ("declare -A M=([seq]=8192 [name]=big)", "${M[seq]} ${M[name]}", ("8192", "big")),
        ("", "${SEQ:-8192} ${X:-a b} ${Y:-}", ("8192", "a", "b")),
        ("SEQ=4096", "${SEQ:-8192} ${SEQ:+--long}", ("4096", "--long")),
        ("A=3; B=4", "$((A*B+1)) $(( $A ** 2 )) $((B > A ? 7 : 8)) $((-7 / 2))", ("13", "9", "7", "-3")),
        ("NAME=llama3-8b.yml", "${NAME%.yml} ${NAME##*-} ${NAME//l/L} ${NAME:0:6} ${NAME^^}",
         ("llama3-8b", "8b.yml", "LLama3-8b.ymL", "llama3", "LLAMA3-8B.YML")),
        ("A=B; B=7", "${!A}", ("7",)),
        ('ARGS="\\\na=1 \\\nb=2"', "${ARGS}", ("a=1", "b=2")),
        ("ARGS='--a 1'; ARGS+=' --b 2'", "$ARGS", ("--a", "1", "--b", "2")),
        ("", "'$HOME' \\$HOME \"a\\\"b\" $'c\\td'", ("$HOME", "$HOME", 'a"b', "c\td")),
        ("A=$(echo 8)", "$A $(expr 2 \\* 3) $(basename a/b.py) $(seq 3)", ("8", "6", "b.py", "1", "2", "3")),
        ("A=$(cat <<EOF\n--a 1\n--b 2\nEOF\n)", "$A", ("--a", "1", "--b", "2")),
        ("read -r -d '' A <<EOF\n--a 1\nEOF", "$A", ("--a", "1")),
    ],
)  # fmt: skip
def test_a_word_is_expanded_as_in_bash(before, word, found):
    assert words(f"{before}\nprogram {word}")[1:] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('if [[ "$A" == fp8 ]]; then B=1; elif [ -z "$C" ]; then B=2; else B=3; fi', "2"),
        ("B=0; if [ 3 -gt 2 ]; then B=5; fi", "5"),
        ("T=7b; case $T in 7b|8b) B=small;; *) B=big;; esac", "small"),
        ("T=70b; case $T in 7*b) B=seven;; *) B=big;; esac", "seven"),
        ("for i in 1 2 3; do B+=$i; done", "123"),
        ("f() { local x=$1; B=$((x * 2)); }; f 21", "42"),
        ("B=1; [[ -n $B ]] && B=2", "2"),
        ("B=1; [[ -z $B ]] || B=3", "3"),
        ("(( B = 2 * 3 ))", "6"),
        ("let B=2+3", "5"),
        ("eval 'B=9'", "9"),
        ("B=1; while [[ $# -gt 0 ]]; do case $1 in --b) B=$2;; esac; done", "1"),
        ("B=1; for a in \"$@\"; do B=$a; done", "1"),
        ("B=1; (B=2)", "1"),
        ("export B=4; bash -c 'program $B'; B=5", "5"),
    ],
)  # fmt: skip
def test_the_way_through_a_script_is_followed(text, found):
    assert words(f"{text}\nprogram $B") == ("program", found)


@pytest.mark.parametrize(
    ("text", "unknown", "why"),
    [
        ("program --save x/$DIR", "$DIR in line 1", "not set in this file"),
        ("program\nprogram --name $(date +%s)", "$(date +%s) in line 2", "a command's output"),
        ("program --data $1", "$1 in line 1", "the caller gives it"),
        ("B=1\nif [ -f x ]; then B=2; fi\nprogram $B", "$B in line 2", "it depends on the condition in line 2"),
        ("program $((N * 8))", "$((N * 8)) in line 1", "its numbers are not all known"),
    ],
)
def test_what_only_a_shell_knows_is_named_with_its_line(text, unknown, why):
    last = read_script(text, "run.sh").commands[-1].words[-1]
    assert last.unknown[-1].words == f"{unknown} ({why})"
    assert last.text.endswith(last.unknown[-1].text)


def test_an_unknown_part_stays_unknown_through_changes():
    word = read_script("A=$(hostname); B=${A%%.*}-x; program $B", "run.sh").commands[-1].words[-1]
    assert word.unknown
    assert word.text.endswith("-x")


def test_a_branch_that_only_a_shell_knows_adds_what_it_may_add():
    found = read_script("A=(--a); if [ -e x ]; then A+=(--b); fi\nprogram ${A[@]}", "run.sh").commands[-1].words
    assert found[1].text == "--a"
    assert found[2].unknown[0].why == "it depends on the condition in line 1"


def test_a_check_that_leaves_does_not_end_the_script():
    assert words("if ! pip show xpk > /dev/null; then exit 1; fi\n[ $# -lt 2 ] && exit 1\nprogram a") == ("program", "a")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("program 'open", "not words as a shell reads them: No closing quotation"),
        ("f() { f; f; }; f", "more than 20000 statements"),
        ("A=aaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * 40, "a word of more than 1 Mi characters"),
        ("(" * 400 + "a" + ")" * 400, "levels of quotes and brackets"),
        ("for i in $(seq 900); do for j in $(seq 900); do B=$j; done; done", "more than 20000 statements"),
    ],
)
def test_a_script_without_end_is_bad_input(text, says):
    with pytest.raises(BadInputError, match=says):
        read_script(text, "run.sh")


def test_text_that_is_no_script_is_survived():
    for text in ("", "\x00", "if then fi do", "}}}} ((", "<<EOF", "${", "$((", "a=(", "case x in"):
        read_script(text, "run.sh")


@pytest.mark.parametrize(
    "text",
    [
        'IMAGE=""\nif [ -z "$IMAGE" ]; then echo give one; exit 1; fi\nprogram a',
        'IMAGE=""\n[[ -n "$IMAGE" ]] || { echo give one; exit 2; }\nprogram a',
    ],
)
def test_a_value_that_its_user_has_to_fill_in_does_not_end_the_script(text):
    assert words(text) == ("program", "a")


def test_fields_of_a_line_are_read_into_names():
    assert words("IFS=',' read -r A B C <<< '1,2,3'\nprogram $A $B $C") == ("program", "1", "2", "3")
