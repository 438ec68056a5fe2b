"""Parts: shardings are read and written, and the collectives of a product follow from them."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.parts import Part, Placed
from lcplan.strategy import Mesh

MESH = Mesh(data=2, tensor=4)


def moved(sharding, kind="matmul", mesh=MESH):
    part = Part.of(kind, shape="B=64,D=64,F=64", sharding=sharding, mesh=mesh, rest={})
    return [(move.op, move.axis, move.moved, move.dim) for move in part.moves(mesh)]


@pytest.mark.parametrize("text", ["B/data D/(fsdp,tensor) F", "B", "D/expert F"])
def test_a_sharding_is_written_as_it_is_read(text):
    assert str(Placed.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b/data", "'b/data' is no dim|b/data is no dim"),
        ("B/model", "unknown axis 'model'"),
        ("B/data D/data", "data splits two dims"),
        ("", "is no dim"),
    ],
)
def test_a_sharding_that_cannot_be_is_refused(text, message):
    with pytest.raises(BadInputError, match=message):
        Placed.parse(text)


@pytest.mark.parametrize(
    ("sharding", "wanted"),
    [
        ("B/data D/tensor, D F/tensor -> B/data F/tensor", [("all-gather", "tensor", "inner", "D")]),
        ("B/(data,tensor) D, D F/tensor -> B/data F/tensor", [("all-gather", "tensor", "rows", "B")]),
        ("B/data D, D/data F -> B/data F", [("all-gather", "data", "weight", "D")]),
        ("B/data D/tensor, D/tensor F -> B/data F/tensor", [("reduce-scatter", "tensor", "result", "F")]),
        ("B/data D/tensor, D/tensor F -> B/data F", [("all-reduce", "tensor", "result", "B")]),
        ("B/data D, D F/tensor -> B/data F/tensor", []),
    ],
)
def test_collectives_follow_from_the_shardings(sharding, wanted):
    assert moved(sharding) == wanted


def test_axes_of_size_one_move_nothing():
    assert moved(None, mesh=Mesh(data=2)) == []


def test_a_feed_forward_gathers_and_scatters():
    assert [op for op, *_ in moved(None, kind="ffn")] == ["all-gather", "reduce-scatter"]
    assert [op for op, *_ in moved("B/data D -> B/data D", kind="ffn")] == ["all-reduce"]
