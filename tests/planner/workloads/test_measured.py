"""Stages compiled and timed of a rollout and of an iteration: every program is measured, and one answer comes of them."""

import pytest

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.strategy import Mesh, Strategy
from planner.measure.programs import combined_compile, combined_timing
from planner.measure.workers.job import DECODE, PREFILL, STEP

SIZES = ["--prompt", "16", "--generate", "16", "--batch", "8"]
TINY = ["--model", "qwen3-tiny", "--hw", "cpu-host", *SIZES]
SAMPLE_1024 = ["--model", "qwen3-1.7b", "--prompt", "256", "--generate", "1024", "--batch", "512", "--workload", "sample"]


def test_a_rollout_is_searched_and_timed_by_default_on_this_host(lcplan):
    search = ["search", "--workload", "sample", *TINY, "--devices", "2", "--survivors", "1", "--out", "run"]
    code, document, _ = lcplan(*search)
    assert code == 0
    winner = document["winner"]
    timed, compiled = winner["timed"], winner["compiled"]
    assert winner["best"]["rung"] == "timed:full"
    assert list(timed["programs"]) == list(compiled["programs"]) == ["prefill", "decode"]
    assert timed["step_s"] == pytest.approx(sum(program["step_s"] for program in timed["programs"].values()))
    assert winner["best"]["step_s"] == timed["step_s"]
    assert compiled["total_bytes"] == max(program["total_bytes"] for program in compiled["programs"].values())


def test_an_iteration_is_compiled_and_timed_with_its_rollout_and_its_train_step(lcplan):
    code, document, _ = lcplan("estimate", "--workload", "rl", *TINY, "--mesh", "fsdp=2", "--time")
    assert code == 0
    candidate = document["candidate"]
    compiled, timed = candidate["compiled"], candidate["timed"]
    assert list(compiled["programs"]) == ["prefill", "decode", "train_step"]
    assert timed["loss"] == timed["programs"]["train_step"]["loss"] > 0
    assert timed["step_s"] == pytest.approx(sum(program["step_s"] for program in timed["programs"].values()))
    parts = candidate["estimate"]["memory_bytes"]
    alive = {"prefill": parts["params"] + parts["optimizer"], "decode": parts["optimizer"], "train_step": 0}
    needs = {name: program["total_bytes"] + alive[name] for name, program in compiled["programs"].items()}
    assert compiled["total_bytes"] == pytest.approx(max(needs.values()), abs=2)
    assert candidate["best"]["memory_bytes"] == compiled["total_bytes"]


def test_the_move_to_another_layout_and_the_scorings_are_programs(lcplan):
    policy = ["--kl-coefficient", "0.1", "--old-log-probs", "recomputed"]
    asked = ["--workload", "rl", *TINY, "--mesh", "fsdp=2", "--rollout-mesh", "tensor=2", *policy, "--time"]
    code, document, _ = lcplan("estimate", *asked)
    assert code == 0
    timed, compiled = document["candidate"]["timed"], document["candidate"]["compiled"]
    names = ["reshard", "prefill", "decode", "old_log_probs", "reference_log_probs", "train_step"]
    assert list(timed["programs"]) == list(compiled["programs"]) == names
    assert timed["step_s"] == pytest.approx(sum(program["step_s"] for program in timed["programs"].values()))
    assert timed["added_s"] == {}
    parts = document["candidate"]["estimate"]["memory_bytes"]
    sizes = {name: program["argument_bytes"] for name, program in compiled["programs"].items()}
    tokens = 2 * 4 * 8 * 32 / 2
    assert sizes["old_log_probs"] == pytest.approx(parts["params"] + tokens, rel=0.01)
    assert sizes["reference_log_probs"] == pytest.approx(parts["reference"] + tokens, rel=0.01)
    assert sizes["reshard"] == pytest.approx(parts["params"], rel=0.01)
    alive = parts["params"] + parts["optimizer"] + parts["reference"]
    needs = {name: program["total_bytes"] for name, program in compiled["programs"].items()}
    needs["reshard"] += alive - parts["params"]
    needs |= {name: needs[name] + alive for name in ("prefill", "decode")}
    needs["old_log_probs"] += alive - parts["params"]
    needs["reference_log_probs"] += alive - parts["reference"]
    needs["train_step"] += parts["reference"]
    assert compiled["total_bytes"] == pytest.approx(max(needs.values()), abs=4)


@pytest.mark.parametrize("kind", ["sample", "rl"])
@pytest.mark.parametrize("wanted", [["--hw", "cpu-host", "--slice"], ["--hw", "dgx-h100", "--time"]])
def test_a_slice_is_refused_by_name(lcplan, kind, wanted):
    asked = ["estimate", "--model", "qwen3-tiny", "--workload", kind, *SIZES, "--mesh", "fsdp=4", *wanted]
    code, document, err = lcplan(*asked)
    assert (code, document) == (2, None)
    assert f"--slice with --workload {kind}: prefill and decode have no program for one rank" in err


@pytest.mark.gpu_target
def test_a_rollouts_memory_decides_whether_an_iteration_fits(lcplan):
    asked = ["--model", "qwen3-1.7b", "--hw", "dgx-h100", "--mesh", "fsdp=8", "--parameters", "gathered-once", "--no-donate"]
    sizes = ["--prompt", "256", "--generate", "7936", "--batch", "256", "--kv-dtype", "fp32", "--remat", "full"]
    code, document, _ = lcplan("estimate", "--workload", "rl", *asked, *sizes, "--compile")
    assert code == 0
    candidate = document["candidate"]
    modelled, best = candidate["estimate"]["memory_bytes"]["total"], candidate["best"]
    assert best["memory_bytes"] == pytest.approx(modelled, rel=0.01)
    assert not best["fits"]
    assert candidate["compiled"]["programs"]["train_step"]["total_bytes"] < 0.1 * modelled


@pytest.mark.gpu_target
def test_prefill_writes_into_the_given_cache_on_a_gpu(lcplan):
    code, document, _ = lcplan("estimate", *SAMPLE_1024, "--hw", "dgx-h100", "--mesh", "data=8", "--compile")
    assert code == 0
    prefill = document["candidate"]["compiled"]["programs"]["prefill"]
    cache = document["candidate"]["estimate"]["memory_bytes"]["kv_cache"]
    assert prefill["alias_bytes"] == pytest.approx(cache, rel=0.01)
    assert prefill["temp_bytes"] < 0.05 * cache


@pytest.mark.tpu_target
def test_a_rollout_on_a_tpu_slice_compiles_and_needs_what_is_modelled(lcplan):
    search = ["search", *SAMPLE_1024, "--hw", "tpu-v4-32", "--survivors", "1", "--stages", "compiled", "--out", "run"]
    code, document, _ = lcplan(*search)
    assert code == 0
    winner = document["winner"]
    assert winner["compiled"]["rung"] == "compiled:target"
    assert winner["best"]["memory_bytes"] == pytest.approx(winner["estimate"]["memory_bytes"]["total"], rel=0.06)


def compiled(total=None, error=None, **fields):
    return Compiled(
        rung="compiled:target",
        target="v4",
        jax="0.10.1",
        finished_at="",
        compile_s=2.0,
        total_bytes=total,
        error=error,
        **fields,
    )


def timed(step_s, peak, error=None):
    return Timed(rung="timed:full", device="1 x v4", jax="", finished_at="", step_s=step_s, peak_bytes=peak, error=error)


@pytest.fixture
def jobs():
    from lcplan import catalog
    from lcplan.spec.workload import Workload
    from planner.measure.workers.job import CompileJob

    step = CompileJob(
        model=catalog.model("qwen3-tiny"),
        hardware=catalog.hardware("cpu-host"),
        workload=Workload(seq_len=128, global_batch=1),
        strategy=Strategy(mesh=Mesh()),
    )
    decode = step.model_copy(update={"program": DECODE, "calls": 5, "resident_bytes": 30})
    return step.model_copy(update={"program": PREFILL}), decode, step


def test_arrays_that_stay_in_memory_make_a_smaller_program_the_largest(jobs):
    gather = {"op": "all-gather", "axis": "fsdp", "bytes": 8, "calls": 3}
    results = dict(zip(jobs, (compiled(50), compiled(80, collectives=[gather]), compiled(100)), strict=True))
    found = combined_compile(results)
    assert (found.total_bytes, found.resident_bytes, found.compile_s) == (110, 30, 6.0)
    assert [use.calls for use in found.collectives] == [15]
    assert {name: one.total_bytes for name, one in found.programs.items()} == {"prefill": 50, "decode": 80, STEP.name: 100}


def test_a_program_that_fails_fails_the_whole_by_name(jobs):
    found = combined_compile(dict(zip(jobs, (compiled(50), compiled(error="no memory"), compiled(100)), strict=True)))
    assert (found.total_bytes, found.error) == (None, "decode: no memory")
    slow = combined_timing(dict(zip(jobs, (timed(1.0, 5), timed(None, None, "nan"), timed(2.0, 7)), strict=True)))
    assert (slow.step_s, slow.error) == (None, "decode: nan")


def test_seconds_add_up_and_the_fullest_program_is_the_peak(jobs):
    found = combined_timing(dict(zip(jobs, (timed(1.0, 5), timed(4.0, 20), timed(2.0, 40)), strict=True)))
    assert (found.step_s, found.peak_bytes) == (7.0, 50)


def test_one_program_is_its_own_evidence(jobs):
    one, clock = compiled(50), timed(1.0, 5)
    assert combined_compile({jobs[2]: one}) is one
    assert combined_timing({jobs[2]: clock}) is clock
