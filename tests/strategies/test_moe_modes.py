"""Experts in sharding modes ``auto`` and ``explicit``: equal to the reference, with the collectives that the compiler adds."""

from collections import Counter
from functools import cache

import jax
import pytest
from equality import Case, assert_equal
from test_moe_collectives import step_of
from test_moe_collectives import strategy as counted
from test_moe_equality import DENSE_FIRST, IN_TURN, QWEN, WEIGHED, strategy

from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView

MODES = ("auto", "explicit")
ONE_FAST = ["auto", pytest.param("explicit", marks=pytest.mark.slow)]
"""Both modes have one executable here."""


def in_mode(mode, strategy):
    return strategy.model_copy(update={"sharding_mode": mode})


FAST = [
    ("auto", QWEN, strategy(expert=2, context=2, tensor=2)),
    ("explicit", QWEN, strategy("capacity", expert=4, context=2)),
]
SLOW = [
    (mode, model, point)
    for mode in MODES
    for model, point in (
        (QWEN, strategy(expert=4, fsdp=2, remat="save-all")),
        (WEIGHED, strategy("capacity", expert=2, fsdp=2, tensor=2, remat="save-all", microbatches=2)),
        (DENSE_FIRST, strategy(expert=2, context=2, tensor=2)),
        (IN_TURN, strategy("capacity", expert=2, fsdp=2, context=2)),  # two experts per rank, groups over all axes
    )
]


@pytest.mark.parametrize(("mode", "model", "strategy"), FAST)
def test_equals_reference(mode, model, strategy):
    assert_equal(Case(model, in_mode(mode, strategy), global_batch=8))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "model", "strategy"), SLOW)
def test_more_mixtures_equal_reference(mode, model, strategy):
    assert_equal(Case(model, in_mode(mode, strategy), global_batch=8))


@pytest.mark.parametrize("mode", ONE_FAST)
def test_a_capacity_drops_the_rows_that_the_manual_step_drops(mode):
    steps = [step_of(in_mode(name, counted("capacity", expert=4, fsdp=2, capacity=10))) for name in ("manual", mode)]
    state, batch = jax.random.key(0), jax.random.key(1)
    manual, whole = (step.jitted(step.init(state), step.example_batch(batch))[1] for step in steps)
    assert float(manual.dropped) > 0
    assert float(whole.dropped) == float(manual.dropped)


@cache
def moved(mode, dispatch):
    """Bytes a step by (op, axis) that the executable shows, and its warnings."""
    step = step_of(in_mode(mode, counted(dispatch, expert=4, context=2, capacity=100)))
    order = step.spec.strategy.axis_order
    view = MeshView(order, tuple(getattr(step.spec.strategy.mesh, axis) for axis in order))
    facts = read_executable(step.jitted.lower(*step.abstract_arguments()).compile().as_text(), mesh=view, kind="cpu")
    uses = Counter()
    for use in facts.collectives:
        uses[use.op, use.axis] += use.total_bytes
    return uses, facts.warnings


def test_the_compiler_exchanges_the_rows_of_a_capacity():
    by_hand, placed = moved("manual", "capacity")[0], moved("auto", "capacity")[0]
    assert placed["all-to-all", "expert"] == by_hand["all-to-all", "expert"] > 0


@pytest.mark.parametrize("mode", ONE_FAST)
def test_without_a_capacity_every_device_gets_all_rows(mode):
    """What a plain jit adds, counted once per loop over blocks: no exchange, and several times the manual step's bytes."""
    by_hand, (placed, warnings) = moved("manual", "dropless")[0], moved(mode, "dropless")
    assert by_hand["all-to-all", "expert"] > 0
    assert placed["all-to-all", "expert"] == 0
    assert sum(placed.values()) > 3 * sum(by_hand.values())
    assert all("trip count not in the executable" in warning for warning in warnings)
