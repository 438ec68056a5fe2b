"""What compiles and timings teach of a candidate's time."""

from dataclasses import replace

import pytest

from cost_models.collectives.listed_collectives import listed_seconds
from cost_models.collectives.step import collectives
from cost_models.parts.time import STEP_TIME, communication_seconds
from lcplan import catalog
from lcplan.evidence.measurement import Compiled, Timed
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.candidates.learning import Learnt, learn_from_compile, learn_from_timings
from planner.candidates.ranking import rank
from planner.request.request import make_request
from planner.run.run_read import candidate_from_json
from planner.space.analysis import setting_of
from planner.workloads.pricing import price

HARDWARE = catalog.hardware("dgx-h100")
REQUEST = make_request(
    {
        "model": catalog.model("llama3-8b"),
        "hardware": HARDWARE,
        "workload": Workload(seq_len=131072, global_batch=1),
        "budget_bytes": HARDWARE.usable_bytes,
    }
)
RING = Strategy(mesh=Mesh(context=4, tensor=2), scheme="ring-zigzag", loss_chunk_tokens=2048)
WIDE = Strategy(mesh=Mesh(context=8), scheme="ring-zigzag", loss_chunk_tokens=2048)


def compiled_with(uses, rung="compiled:target"):
    common = {"target": "h100", "jax": "0.10.1", "finished_at": "2026-01-01T00:00:00+00:00", "compile_s": 1.0}
    return Compiled(rung=rung, **common, total_bytes=10, collectives=uses)


def timed(candidate, step_s, rung="timed:full"):
    found = Timed(rung=rung, device="h100", jax="0.10.1", finished_at="2026-01-01T00:00:00+00:00", step_s=step_s)
    return candidate.with_timed(found)


def split(candidate):
    communication = sum(communication_seconds(candidate.estimate["time_s"]).values())
    return candidate.estimate["step_s"] - communication, communication


def test_the_very_list_of_the_laws_teaches_nothing():
    setting, candidate = setting_of(REQUEST), price(REQUEST, RING)
    uses = collectives(setting, RING)
    found = learn_from_compile(setting, candidate.with_compiled(compiled_with(uses), 100))
    assert found.learnt == Learnt(1.0)
    assert found.best.step_s == pytest.approx(candidate.estimate["step_s"])


def test_twice_the_calls_are_twice_the_communication_and_the_estimate_stays():
    setting, candidate = setting_of(REQUEST), price(REQUEST, RING)
    uses = tuple(use.model_copy(update={"calls": 2 * use.calls}) for use in collectives(setting, RING))
    found = learn_from_compile(setting, candidate.with_compiled(compiled_with(uses), 100))
    computation, communication = split(candidate)
    assert found.best.step_s == pytest.approx(computation + 2 * communication)
    assert found.best.tokens_per_s * found.best.step_s == pytest.approx(REQUEST.workload.tokens)
    assert found.estimate == candidate.estimate


def test_another_compilers_collectives_teach_nothing():
    setting, candidate = setting_of(REQUEST), price(REQUEST, RING)
    found = learn_from_compile(
        setting, candidate.with_compiled(compiled_with(collectives(setting, RING), "compiled:host"), 100)
    )
    assert found.learnt is None


def test_groups_that_match_no_axis_are_left_out():
    setting = setting_of(REQUEST)
    uses = collectives(setting, RING)
    strange = uses[0].model_copy(update={"axis": "?"})
    assert listed_seconds(setting, RING, (*uses, strange)) == listed_seconds(setting, RING, uses) > 0


def test_timings_rescale_what_was_not_timed_and_only_that():
    one, other = price(REQUEST, RING), price(REQUEST, WIDE)
    slow = timed(one, 1.5 * one.estimate["step_s"])
    first, second = learn_from_timings([slow, other])
    assert first.best.step_s == slow.timed.step_s
    assert other.estimate["step_s"] < second.best.step_s < 1.5 * other.estimate["step_s"], "drawn towards the laws"
    assert second.learnt.timings == 1
    assert second.estimate == other.estimate


def test_many_timings_find_both_scales():
    meshes = [Mesh(context=8), Mesh(context=4, tensor=2), Mesh(context=2, tensor=4), Mesh(tensor=8)]
    priced = [price(REQUEST, RING.model_copy(update={"mesh": mesh})) for mesh in meshes] * 200
    truth = [timed(c, 1.2 * split(c)[0] + 2.0 * split(c)[1]) for c in priced]
    learnt = learn_from_timings(truth)[0].learnt
    assert (learnt.computation_scale, learnt.communication_scale) == pytest.approx((1.2, 2.0), rel=0.05)


def test_no_timing_and_a_slices_timing_teach_nothing():
    one, other = price(REQUEST, RING), price(REQUEST, WIDE)
    assert learn_from_timings([one, other]) == [one, other]
    slices = [timed(one, 9.0, "timed:slice"), other]
    assert learn_from_timings(slices) == slices


def test_what_was_learnt_ranks_and_survives_the_file():
    one, other = price(REQUEST, RING), price(REQUEST, WIDE)
    faster, slower = sorted((one, other), key=lambda c: c.best.step_s)
    dear = replace(faster, learnt=Learnt(computation_scale=50.0, timings=1))
    assert rank([dear, slower], "step_s")[0].strategy == slower.strategy
    assert candidate_from_json(dear.to_json()).learnt == dear.learnt


@pytest.mark.parametrize("part", STEP_TIME, ids=[part.key for part in STEP_TIME])
def test_each_part_is_scaled_as_its_kind(part):
    """One second of one part, computation three and communication five times as slow as modelled."""
    scaled = Learnt(computation_scale=3.0, communication_scale=5.0).step_s({"step_s": 1.0, "time_s": {part.key: 1.0}})
    assert scaled == pytest.approx(5.0 if part.kind == "communication" else 3.0)


def test_a_mixtures_rows_are_learnt_as_communication():
    """Twice the modelled communication, dispatch and combine included, is a scale of two for it and of one for the rest."""
    machine = catalog.hardware("gb200-nvl72")
    workload = Workload(seq_len=131072, global_batch=32)
    mixture = make_request(
        {
            "model": catalog.model("qwen3-30b-a3b"),
            "hardware": machine,
            "workload": workload,
            "budget_bytes": machine.usable_bytes,
        }
    )
    meshes = [Mesh(context=8, expert=4), Mesh(context=16, expert=2), Mesh(context=4, expert=8), Mesh(fsdp=32)]
    priced = [price(mixture, Strategy(mesh=mesh)) for mesh in meshes] * 500
    assert sum(candidate.estimate["time_s"]["comm_expert"] > 0 for candidate in priced) == 1500
    keys = ("comm_fsdp", "comm_tensor", "comm_context", "comm_expert", "comm_data", "contention")
    times = [c.estimate["step_s"] + sum(c.estimate["time_s"][key] for key in keys) for c in priced]
    learnt = learn_from_timings([timed(c, seconds) for c, seconds in zip(priced, times, strict=True)])[0].learnt
    assert (learnt.computation_scale, learnt.communication_scale) == pytest.approx((1.0, 2.0), rel=0.03)
