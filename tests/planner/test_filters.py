import pytest

from lcplan.formats.errors import BadInputError
from planner.request.filters import parse_mesh


def test_ranges_lists_and_single_sizes():
    parsed = parse_mesh("context=8..32,tensor=1,2,data=3")
    assert [parsed["context"].allows(size) for size in (7, 8, 20, 32, 33)] == [False, True, True, True, False]
    assert [parsed["tensor"].allows(size) for size in (1, 2, 3)] == [True, True, False]
    assert parsed["data"].fixed == 3
    assert parsed["tensor"].fixed is None
    assert parsed["context"].fixed is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contxt=8", "--mesh: unknown axis 'contxt'; did you mean 'context'?"),
        ("tp=2", "--mesh: 'tp' is called 'tensor' here"),
        ("pp=2", "--mesh: 'pp' is called 'pipe' here"),
        ("context=0", "--mesh context='0': not a whole number above zero, nor a range like 8..32; at most 1048576"),
        ("context=-2", "--mesh context='-2': not a whole number above zero, nor a range like 8..32; at most 1048576"),
        ("context=32..8", "--mesh context='32..8': not a whole number above zero, nor a range like 8..32; at most 1048576"),
        ("context=2,context=4", "--mesh: axis 'context' is given twice"),
        ("8", "--mesh '8': write axis=size, for example context=16,tensor=2"),
        ("", "--mesh '': write axis=size, for example context=16,tensor=2"),
    ],
)
def test_bad_meshes_say_what_is_wrong(text, message):
    with pytest.raises(BadInputError) as caught:
        parse_mesh(text)
    assert message in caught.value.problems


def test_all_problems_at_once():
    with pytest.raises(BadInputError) as caught:
        parse_mesh("contxt=8,tensor=x")
    assert len(caught.value.problems) == 2
