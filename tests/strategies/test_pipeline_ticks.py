"""The tables of lockstep schedules: each pass after the passes that it waits for, and no slot with two chunks."""

import pytest

from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.stages import Stages
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import BUILT_SCHEDULES, Mesh, Strategy
from strategies.pipeline.ticks import Ticks, stored_order

POINTS = [(2, 1, 1), (2, 3, 1), (4, 3, 1), (4, 8, 1), (2, 4, 2), (4, 8, 2), (4, 16, 4), (8, 16, 2)]
"""Stages, microbatches, chunks."""


def ticks_of(pipe, microbatches, chunks, *, late=False):
    return Ticks(pipe, chunks, microbatches, late)


def when(work):
    """The tick of each pass by (microbatch, virtual stage)."""
    pipe = work.microbatch.shape[1]
    return {
        (int(work.microbatch[t, s]), int(work.chunk[t, s]) * pipe + s): t
        for t in range(len(work.microbatch))
        for s in range(pipe)
        if work.busy[t, s]
    }


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_every_pass_runs_once_and_one_tick_after_the_one_that_sends_to_it(point, late):
    pipe, microbatches, chunks = point
    ticks = ticks_of(*point, late=late)
    forward, backward = when(ticks.forward), when(ticks.backward)
    everything = {(i, k) for i in range(microbatches) for k in range(pipe * chunks)}
    assert forward.keys() == backward.keys() == everything
    for i, k in everything:
        if k:
            assert forward[i, k] == forward[i, k - 1] + 1
            assert backward[i, k - 1] == backward[i, k] + 1
        assert backward[i, k] >= forward[i, k]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_slot_keeps_its_chunk_until_the_backward_pass_and_idle_stages_write_elsewhere(point, late):
    ticks = ticks_of(*point, late=late)
    for s in range(ticks.pipe):
        held = {}
        for t in range(ticks.ticks):
            if ticks.forward.busy[t].any():
                slot = int(ticks.forward.slot[t, s])
                assert slot not in held
                assert slot < ticks.slots
                if ticks.forward.busy[t, s]:
                    held[slot] = int(ticks.forward.microbatch[t, s]), int(ticks.forward.chunk[t, s])
            if ticks.backward.busy[t, s]:
                found = held.pop(int(ticks.backward.slot[t, s]))
                assert found == (int(ticks.backward.microbatch[t, s]), int(ticks.backward.chunk[t, s]))
        assert not held


def test_1f1b_by_hand():
    # 2 stages, 3 microbatches: stage 1 runs forward and backward of one microbatch in the same tick
    ticks = ticks_of(2, 3, 1)
    assert ticks.forward.microbatch.tolist() == [[0, -1], [1, 0], [2, 1], [-1, 2], [-1, -1]]
    assert ticks.backward.microbatch.tolist() == [[-1, -1], [-1, 0], [0, 1], [1, 2], [2, -1]]
    assert [tuple(phase) for phase in ticks.phases] == [(0, 1, True, False), (1, 4, True, True), (4, 5, False, True)]
    assert ticks.slots == 3


def test_slots_do_not_grow_with_microbatches_where_backward_passes_are_early():
    assert {ticks_of(4, m, 1).slots for m in (8, 16, 64)} == {7}
    assert {ticks_of(4, m, 2).slots for m in (8, 16, 64)} == {11}
    assert [ticks_of(4, m, 1, late=True).slots for m in (8, 16)] == [9, 17]


@pytest.mark.parametrize("schedule", BUILT_SCHEDULES)
@pytest.mark.parametrize("point", POINTS)
def test_the_cost_model_counts_the_same_slots(point, schedule):
    pipe, microbatches, chunks = point
    strategy = Strategy(mesh=Mesh(pipe=pipe), microbatches=microbatches, virtual_stages=chunks, schedule=schedule)
    machine = hardware("gb200-nvl72")
    setting = Setting(model("llama3-8b"), machine, Workload(seq_len=1024, global_batch=16), machine.usable_bytes)
    stages = Stages(Layout(setting, StrategyTable.from_strategies([strategy])))
    assert stages.slots[0] == Ticks.of(strategy).slots
    assert stages.outputs[0] == Ticks.of(strategy).outputs


def test_states_stack_layers_by_stage():
    interleaved = Strategy(mesh=Mesh(pipe=2), virtual_stages=2, schedule="interleaved")
    assert stored_order(interleaved, 8).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert stored_order(Strategy(mesh=Mesh(pipe=4)), 8).tolist() == [*range(8)]
