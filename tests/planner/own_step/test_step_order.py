"""The space of a step of one's own, and the order in which its strategies are compiled."""

import pytest

from lcplan.catalog import hardware
from lcplan.evidence.execution import StepCompiled
from lcplan.formats.errors import BadInputError
from lcplan.spec.own_step import StepSpace, StepStrategy
from planner.own_step.candidate import StepCandidate
from planner.own_step.order import Frontier
from planner.own_step.request import StepOptions, build_step_request
from planner.own_step.space import Declared, enumerate_points, meshes_of

GIB = 2**30
SPACE = StepSpace(axes={"x": "rows"}, knobs={"remat": ("none", "dots", "full"), "micro": (1, 2, 4)})


def request_for(file, **options):
    return build_step_request(StepOptions(step=str(file), hw="dgx-h100", seq=16, global_batch=4, **options))


def test_meshes_are_all_ordered_factorizations():
    assert sum(1 for _ in meshes_of(("a", "b", "c"), 12)) == 18  # 6 divisors of 12, each with 1, 2, 2, 3, 4, 6 of its rest
    assert all(mesh["a"] * mesh["b"] == 72 for mesh in meshes_of(("a", "b"), 72))


def test_rules_reject_with_the_numbers(step_file):
    request = request_for(step_file, devices=8)
    points = enumerate_points(request, Declared.of(request))
    assert points.rejected == {"global_batch % rows == 0": 2}  # rows 8 with each value of remat
    assert points.enumerated == 8
    (example,) = points.examples.values()
    assert "global_batch=4, rows=8" in example
    assert "every rank needs whole sequences" in example


def test_filters_narrow_the_space(step_file):
    request = request_for(step_file, devices=8, mesh="rows=2..4", knob=("remat=full",))
    points = enumerate_points(request, Declared.of(request))
    assert [one.argument for one in points.allowed] == [
        {"mesh": {"rows": 2, "cols": 4}, "remat": "full", "layers": 2},
        {"mesh": {"rows": 4, "cols": 2}, "remat": "full", "layers": 2},
    ]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"mesh": "row=2"}, "--mesh: unknown axis 'row'; did you mean 'rows'?"),
        ({"mesh": "data=2"}, "--mesh: unknown axis 'data'"),
        ({"knob": ("remt=full",)}, "no knob 'remt'; did you mean 'remat'?"),
        ({"knob": ("remat=fulll",)}, "--knob remat: no value 'fulll'; did you mean 'full'?"),
        ({"devices": 9}, "devices=9 is more than the 8 of dgx-h100"),
    ],
)
def test_unknown_words_are_bad_input(step_file, options, fault):
    with pytest.raises(BadInputError) as error:
        request_for(step_file, **options)
    assert fault in str(error.value)


def test_a_name_without_a_value_asks_for_its_option(step_file):
    with pytest.raises(BadInputError, match="give --global-batch"):
        build_step_request(StepOptions(step=str(step_file), hw="dgx-h100", seq=16))


def strategies(space=SPACE):
    return [
        StepStrategy(mesh={"x": 8}, knobs={"remat": r, "micro": m}) for r in space.knobs["remat"] for m in space.knobs["micro"]
    ]


def outcome(strategy, gib):
    compiled = StepCompiled(
        rung="compiled:target", target="t", jax="0", finished_at="", compile_s=1.0, total_bytes=int(gib * GIB)
    )
    return StepCandidate(strategy, hardware("dgx-h100"), 70 * GIB).with_compiled(compiled)


def test_values_between_come_first_then_faster_ones_that_may_fit():
    frontier = Frontier(SPACE, strategies())
    (first,) = frontier.take(4)
    assert first.knobs == {"remat": "dots", "micro": 2}
    frontier.add([outcome(first, 20)])
    (second,) = frontier.take(4)
    assert second.knobs == {"remat": "none", "micro": 2}  # one value faster


def test_what_needs_at_least_as_much_as_a_miss_is_left_out():
    frontier = Frontier(SPACE, strategies())
    (first,) = frontier.take(1)
    frontier.add([outcome(first, 100)])
    rest = {tuple(one.knobs.values()) for one in frontier.waiting}
    assert rest == {("none", 4), ("dots", 4), ("full", 1), ("full", 2), ("full", 4)}
