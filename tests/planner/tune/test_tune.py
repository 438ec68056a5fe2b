"""The tuner with a bench that answers at once: budget, order, pruning, resumption, history."""

from dataclasses import replace

import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.run.measuring import Bench
from planner.run.tune import Budget, run, tune
from planner.run.tune.knobs import TuningSpace
from planner.workloads.pricing import price

HARDWARE = catalog.hardware("gb200-nvl72")
REQUEST = SearchRequest(
    model=catalog.model("llama3-8b"),
    hardware=HARDWARE,
    workload=Workload(seq_len=2**18, global_batch=16),
    budget_bytes=HARDWARE.usable_bytes,
    devices=32,
    filters=Filters(),
)
START = Strategy(mesh=Mesh(context=16, tensor=2), scheme="ring-zigzag", remat="full", microbatches=16)


@pytest.fixture
def bench() -> Bench:
    return Bench(REQUEST, probe(), PoolLimits(jobs=1))


def space(*bases: Strategy, measured: bool = True) -> TuningSpace:
    return TuningSpace(bases, REQUEST, "0.10.1", measured)


def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def test_tuning_finds_what_the_start_left_open_and_says_how(bench, tmp_path):
    start = price(REQUEST, START)
    tuned = tune(bench, [start], Budget(trials=25), stage="modelled", url=url(tmp_path))
    assert len(tuned.history) == 25
    assert tuned.history[0]["strategy"] == f"{START.label} loss_chunk_tokens=2048"
    assert len({one["strategy"] for one in tuned.history}) == 25  # none twice
    assert any(one["pareto"] for one in tuned.history)
    assert tuned.candidates[0].best.step_s < start.best.step_s
    improved = [one for one in tuned.history if one["outcome"] == "improved"]
    steps = [one["step_s"] for one in improved]
    assert steps == sorted(steps, reverse=True)
    assert START.label in improved[0]["says"]
    assert steps[-1] == tuned.candidates[0].best.step_s
    assert {one["outcome"] for one in tuned.history} <= {"improved", "kept", "pruned", "rejected"}


def test_an_interrupted_run_goes_on_with_what_is_left_of_its_trials(bench, tmp_path):
    start = price(REQUEST, START)
    tune(bench, [start], Budget(trials=5), stage="modelled", url=url(tmp_path))
    tuned = tune(bench, [start], Budget(trials=8), stage="modelled", url=url(tmp_path))
    assert [one["number"] for one in tuned.history] == list(range(8))


def test_what_an_earlier_run_found_is_not_lost_to_a_later_one(bench, tmp_path):
    """The same command again, its budget used up, has the same winner; a run with more trials goes on from it."""
    start = price(REQUEST, START)
    first, again = (tune(bench, [start], Budget(trials=14), stage="modelled", url=url(tmp_path)) for _ in range(2))
    assert first.candidates[0].strategy != START
    assert [one.strategy for one in again.candidates] == [one.strategy for one in first.candidates]
    assert again.history == first.history
    more = tune(bench, [start], Budget(trials=16), stage="modelled", url=url(tmp_path))
    assert more.candidates[0].best.step_s <= first.candidates[0].best.step_s


def test_ctrl_c_keeps_what_was_found_before_it(bench, tmp_path):
    def stop(tried):
        if tried.number == 9:
            raise KeyboardInterrupt

    start = price(REQUEST, START)
    tuned = tune(bench, [start], Budget(trials=14), stage="modelled", url=url(tmp_path), watch=stop)
    assert tuned.interrupted
    assert len(tuned.history) == 10
    kept = {one["strategy"] for one in tuned.history if one["outcome"] in ("improved", "kept")}
    assert {f"{one.strategy.label} loss_chunk_tokens={one.strategy.loss_chunk_tokens}" for one in tuned.candidates} == kept
    rest = tune(bench, [start], Budget(trials=14), stage="modelled", url=url(tmp_path))
    assert not rest.interrupted
    assert [one["number"] for one in rest.history] == list(range(14))


def test_trials_of_two_runs_at_once_are_numbered_through(bench, tmp_path):
    start, done = price(REQUEST, START), []

    def beside(tried):
        if not done:
            done.append(tune(bench, [start], Budget(trials=4), stage="modelled", url=url(tmp_path)))

    tuned = tune(bench, [start], Budget(trials=4), stage="modelled", url=url(tmp_path), watch=beside)
    assert len(tuned.history) > 4
    assert [one["number"] for one in tuned.history] == list(range(len(tuned.history)))


def test_tokens_a_device_are_tuned_where_they_are_asked_for(bench, tmp_path):
    """64 devices take a shorter step than 32, and more device-seconds: the trials that count are those of the 32."""
    zigzag = Filters(scheme=("ring-zigzag",))
    request = REQUEST.model_copy(update={"objective": "tokens_per_s_per_device", "devices": None, "filters": zigzag})
    wide = START.model_copy(update={"mesh": Mesh(data=2, context=16, tensor=2), "microbatches": 8})
    both = [price(request, one) for one in (START, wide)]
    assert both[1].best.step_s < both[0].best.step_s / 1.5
    tuned = tune(replace(bench, request=request), both, Budget(trials=20), stage="modelled", url=url(tmp_path))
    improved = [one for one in tuned.history if one["outcome"] == "improved"]
    assert any(one["strategy"].startswith(START.mesh.label) for one in improved)
    assert all(" in device-seconds" in one["says"] for one in improved)
    by_label = {f"{one.strategy.label} loss_chunk_tokens={one.strategy.loss_chunk_tokens}": one for one in tuned.candidates}
    device_seconds = [by_label[one["strategy"]].strategy.devices * one["step_s"] for one in improved]
    assert device_seconds == sorted(device_seconds, reverse=True)
    assert device_seconds[-1] < 32 * both[0].best.step_s


def test_another_request_or_stage_has_trials_of_its_own(bench, tmp_path):
    start = price(REQUEST, START)
    tune(bench, [start], Budget(trials=5), stage="modelled", url=url(tmp_path))
    other = REQUEST.model_copy(update={"workload": Workload(seq_len=2**17, global_batch=16)})
    tuned = tune(replace(bench, request=other), [price(other, START)], Budget(trials=3), stage="modelled", url=url(tmp_path))
    assert len(tuned.history) == 3
    assert {run._name(bench, stage) for stage in ("modelled", "compiled", "timed")} != {run._name(bench, "modelled")}


def test_filters_bind_and_numerics_stay(bench, tmp_path):
    request = REQUEST.model_copy(update={"filters": Filters(remat=("full",), scheme=("ring",))})
    start = price(request, START.model_copy(update={"scheme": "ring"}))
    tuned = tune(replace(bench, request=request), [start], Budget(trials=10), stage="modelled", url=url(tmp_path))
    kept = [one.strategy for one in tuned.candidates]
    assert {one.remat for one in kept} == {"full"}
    assert {one.scheme for one in kept} == {"ring"}
    assert {(one.gather_dtype, one.reduce_dtype, one.moments_dtype) for one in kept} == {("bf16", "fp32", "fp32")}


def test_knobs_of_an_axis_stand_only_where_it_is():
    alone = Strategy(mesh=Mesh(fsdp=32), microbatches=1)
    named = []

    def first(name, values):
        named.append(name)
        return values[0]

    space(alone).suggest(first)
    assert named[0] == "mesh"
    assert not any(name.endswith((": scheme", ": ulysses", ": bidirectional", ": collective_matmul")) for name in named)


def test_values_that_no_strategy_of_the_mesh_has_are_not_tried():
    def values(mesh, knob):
        offered = {}

        def pick(name, values):
            offered[name.rpartition(": ")[2]] = tuple(values)
            return "ulysses-ring" if "ulysses-ring" in values else values[0]

        space(Strategy(mesh=mesh)).suggest(pick)
        return offered.get(knob)

    assert "ulysses-ring" not in values(Mesh(context=2, tensor=2), "scheme")  # a half of two is one rank: nothing to exchange
    assert values(Mesh(context=8), "ulysses") == (2, 4)
    assert values(Mesh(context=8, fsdp=2), "microbatches") == (1, 2, 4, 8)
    assert values(Mesh(context=2, fsdp=2, expert=4), "microbatches") == (1, 2)  # 16 sequences over 8 ranks


def test_what_no_law_reads_is_tried_only_where_something_is_measured():
    def names(measured):
        named = []
        space(START, measured=measured).suggest(lambda name, values: named.append(name.rpartition(": ")[2]) or values[0])
        return named

    assert "scheduler" in names(True)
    assert "scheduler" not in names(False)


def test_the_share_that_offloads_is_tried_where_remat_offloads():
    def names(remat, trainer=None):
        named = []

        def pick(name, values):
            named.append(name.rpartition(": ")[2])
            return remat if named[-1] == "remat" else values[0]

        request = REQUEST.model_copy(update={"trainer": trainer})
        return TuningSpace((START,), request, "0.10.1", measured=False).suggest(pick), named

    some, named = names("offload-layer-in")
    assert some.offload_percent == 25
    assert "offload_percent" in named
    assert "offload_percent" not in names("full")[1]
    assert names("offload-layer-in", trainer="maxtext")[0].offload_percent == 100


def test_a_space_of_one_ends_before_its_budget(bench, tmp_path):
    one = {"remat": ("full",), "scheme": ("ring",), "microbatches": (16,), "loss_chunk_tokens": (2048,)}
    fixed = Filters(**one, bidirectional=("off",), collective_matmul=("off",))
    request = REQUEST.model_copy(update={"filters": fixed})
    start = price(request, START.model_copy(update={"scheme": "ring"}))
    tuned = tune(replace(bench, request=request), [start], Budget(trials=5), stage="modelled", url=url(tmp_path))
    assert [one["outcome"] for one in tuned.history] == ["kept"]


def test_tiles_are_tried_where_the_kernel_has_some():
    def named(hw):
        names = []

        def first(name, values):
            names.append(name.rpartition(": ")[2])
            return values[0]

        machine = catalog.hardware(hw)
        request = REQUEST.model_copy(update={"hardware": machine, "budget_bytes": machine.usable_bytes})
        base = Strategy(mesh=Mesh(fsdp=32), backend=machine.backends[0])
        TuningSpace((base,), request, "0.10.1", measured=True).suggest(first)
        return names

    assert "attention_block" in named("tpu-v5p-64")
    assert "attention_block" not in named("gb200-nvl72")


def test_a_strategy_and_its_parameters_are_each_others_inverse():
    parameters = space(START).parameters_of(START)
    assert parameters is not None
    assert space(START).suggest(lambda name, values: parameters[name]) == START


def test_nothing_that_fits_is_nothing_to_tune(bench, tmp_path):
    small = REQUEST.model_copy(update={"budget_bytes": 2**20})
    start = price(small, START)
    assert tune(replace(bench, request=small), [start], Budget(trials=3), stage="modelled", url=url(tmp_path)).history == ()


@pytest.mark.parametrize("text", ["0", "many", "5 hours", "-3", "0min", "1.5"])
def test_what_is_no_budget(text):
    with pytest.raises(BadInputError, match=r"is no budget; write trials \(40\) or minutes \(5min\)"):
        Budget.parse(text)


def test_minutes_are_this_runs():
    assert not Budget(minutes=1).over(trials=10**6, seconds=59.0)
    assert Budget(minutes=1).over(trials=0, seconds=60.0)
