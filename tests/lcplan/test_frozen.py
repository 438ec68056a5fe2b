"""Strict reading of plain values, every problem with its key, and near names."""

import pytest
from pydantic import ValidationError

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen, fields_at


class Wheel(Frozen):
    radius_m: float
    spokes: int = 3


class Cart(Frozen):
    name: str
    front: Wheel
    rear: Wheel | None = None
    spare: tuple[Wheel, ...] = ()
    sizes: dict[int, tuple[int, ...]] = {}


GOOD = {"name": "c", "front": {"radius_m": 1}}


def problems(changes):
    with pytest.raises(BadInputError) as error:
        Cart.read({**GOOD, **changes}, "cart.yaml")
    return error.value.problems


def test_plain_values_make_the_value():
    cart = Cart.read({**GOOD, "spare": [{"radius_m": 2.5}], "sizes": {8: [1, 2]}}, "cart.yaml")
    assert cart == Cart(name="c", front=Wheel(radius_m=1.0), spare=(Wheel(radius_m=2.5),), sizes={8: (1, 2)})


def test_a_nested_value_is_taken_as_it_is():
    assert Cart.read({**GOOD, "rear": Wheel(radius_m=3.0)}, "cart.yaml").rear == Wheel(radius_m=3.0)


def test_frozen_means_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Wheel(radius_m=1.0).radius_m = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"front": {"radius_m": True}}, "cart.yaml: front.radius_m: Input should be a valid number (got True)"),
        ({"front": {"radius_m": "1"}}, "cart.yaml: front.radius_m: Input should be a valid number (got '1')"),
        ({"front": {"radius_m": 1, "spokes": 2.0}}, "cart.yaml: front.spokes: Input should be a valid integer (got 2.0)"),
        ({"front": {}}, "cart.yaml: missing key 'front.radius_m'"),
        ({"front": {"radius_m": 1, "spoke": 3}}, "cart.yaml: unknown key 'front.spoke'; did you mean 'spokes'?"),
        ({"rear": {"radius_m": 1, "spoke": 3}}, "cart.yaml: unknown key 'rear.spoke'; did you mean 'spokes'?"),
        ({"spare": [{"radius_m": 1, "zzz": 3}]}, "cart.yaml: unknown key 'spare.0.zzz'; known: radius_m, spokes"),
        ({"radius": 1}, "cart.yaml: unknown key 'radius'; did you mean 'front.radius_m'?"),
        ({"front": []}, "cart.yaml: front: Input should be an object (got [])"),
        ({"front": {"radius_m": float("nan")}}, "cart.yaml: front.radius_m: Input should be a finite number (got nan)"),
    ],
)
def test_each_problem_names_its_key(changes, expected):
    assert problems(changes) == (expected,)


def test_all_problems_come_at_once_unknown_keys_first():
    assert problems({"name": 3, "front": {}, "nam": 1}) == (
        "cart.yaml: unknown key 'nam'; did you mean 'name'?",
        "cart.yaml: name: Input should be a valid string (got 3)",
        "cart.yaml: missing key 'front.radius_m'",
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [([], "a list"), ("text", "text"), (None, "empty"), (True, "true or false"), (3, "a number")],
)
def test_only_a_mapping_is_a_spec(data, what):
    with pytest.raises(BadInputError) as error:
        Cart.read(data, "cart.yaml")
    assert str(error.value) == f"cart.yaml: a mapping of keys to values was expected, this is {what}"


def test_keys_that_are_no_text_are_refused():
    with pytest.raises(BadInputError, match=r"cart\.yaml: not plain values: keys must be str"):
        Cart.read({(1, 2): 3}, "cart.yaml")


def test_a_huge_wrong_value_is_not_printed_whole():
    (line,) = problems({"name": [[1] * 1000] * 1000})
    assert len(line) < 200


def test_fields_of_a_path():
    assert fields_at(Cart, ("rear",)) == ["radius_m", "spokes"]
    assert fields_at(Cart, ("spare", 0)) == ["radius_m", "spokes"]
    assert fields_at(Cart, ("name",)) == []
    assert fields_at(Cart, ("nothing",)) == []
