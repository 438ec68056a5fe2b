"""``--workload sample`` on the command line: estimates, searches, boundaries, and what is refused."""

import pytest

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from planner.export.run import export_plan

SAMPLE = [
    "--model",
    "qwen3-1.7b",
    "--hw",
    "tpu-v4-32",
    "--workload",
    "sample",
    "--prompt",
    "256",
    "--generate",
    "1024",
    "--batch",
    "512",
]
GIB = 2**30


@pytest.mark.parametrize(
    ("flags", "published_gib"),
    [("--kv-dtype fp32 --no-donate", 18.60), ("--kv-dtype bf16 --no-donate", 9.87), ("--kv-dtype bf16", 5.48)],
)
def test_memory_of_the_seeds_three_caches_within_two_per_cent(lcplan, flags, published_gib):
    code, document, _ = lcplan("estimate", *SAMPLE, "--mesh", "fsdp=16", *flags.split())
    assert code == 0
    total = document["candidate"]["estimate"]["memory_bytes"]["total"] / GIB
    assert total == pytest.approx(published_gib, rel=0.02)
    assert document["candidate"]["strategy"]["sampling"]["parameters"] == "gathered-per-step"


def test_search_finds_layouts_best_first_and_its_plan_loads(lcplan, tmp_path):
    code, document, _ = lcplan("search", *SAMPLE, "--devices", "16", "--stages", "modelled", "--out", "run")
    assert code == 0
    rates = [candidate["best"]["tokens_per_s"] for candidate in document["candidates"]]
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert rates[0] >= 0.96 * max(rates), "the winner may tie with a faster plan"
    assert all(candidate["strategy"]["sampling"]["cache"] == "power-of-two" for candidate in document["candidates"])
    plan = Plan.load(tmp_path / "run" / "plan.yaml")
    assert plan.request.workload.kind == "sample"
    assert plan.strategy.sampling.mesh == plan.strategy.mesh
    with pytest.raises(BadInputError, match=r"--workload sample is not exported to MaxText .*; use --to jax"):
        export_plan(plan, "maxtext")


def test_fp8_halves_the_cache_and_its_time_but_for_its_factors(lcplan):
    """128 features have 256 bytes in bf16, and 128 with a factor of 4 in fp8."""
    rows = {}
    for kv_dtype in ("bf16", "fp8"):
        code, document, _ = lcplan("estimate", *SAMPLE, "--mesh", "data=16", "--kv-dtype", kv_dtype)
        assert code == 0
        rows[kv_dtype] = document["candidate"]["estimate"]
    for key in ("memory_bytes", "time_s"):
        assert rows["fp8"][key]["kv_cache"] == pytest.approx(rows["bf16"][key]["kv_cache"] * 132 / 256)


def test_a_mixture_is_sampled_and_a_window_bounds_its_cache(lcplan):
    sizes = ("--workload", "sample", "--prompt", "8k", "--generate", "1k", "--batch", "8", "--hw", "dgx-h100")
    code, document, _ = lcplan("estimate", *sizes, "--model", "mixtral-8x7b", "--mesh", "tensor=8")
    assert code == 0
    assert document["candidate"]["estimate"]["fits"]
    assert document["candidate"]["estimate"]["memory_bytes"]["params"] / GIB == pytest.approx(46.7e9 * 2 / 8 / GIB, rel=0.01)
    code, document, _ = lcplan("estimate", *sizes, "--model", "mistral-7b-v0.1", "--mesh", "data=8")
    assert code == 0
    # 32 layers, one sequence, 8 heads of 128 features: 4096 slots and not 9216
    assert document["candidate"]["estimate"]["memory_bytes"]["kv_cache"] == 2 * 2 * 32 * 8 * 128 * 4096


def test_the_temperature_is_part_of_the_request(lcplan):
    for asked, wanted in (((), 1.0), (("--temperature", "0.6"), 0.6), (("--temperature", "0"), 0.0)):
        code, document, _ = lcplan("estimate", *SAMPLE, "--mesh", "data=16", *asked)
        assert (code, document["request"]["workload"]["temperature"]) == (0, wanted)


def test_filters_narrow_the_layouts(lcplan):
    code, document, _ = lcplan(
        "search", *SAMPLE, "--stages", "modelled", "--parameters", "gathered-once", "--cache", "whole", "--mesh", "tensor=1"
    )
    layouts = [candidate["strategy"]["sampling"] for candidate in document["candidates"]]
    assert code == 0
    assert {(layout["parameters"], layout["cache"]) for layout in layouts} == {("gathered-once", "whole")}
    assert all(layout["mesh"]["tensor"] == 1 for layout in layouts)


def test_the_largest_batch_fits_and_one_step_further_nothing_does(lcplan):
    code, document, _ = lcplan("whatif", "max-batch", *SAMPLE)
    answer = document["answer"]
    assert code == 0
    assert answer["candidate"]["estimate"]["fits"]
    miss = answer["next"]["nearest_miss"]["estimate"]
    assert answer["next"]["value"] == answer["global_batch"] + answer["step"]
    assert miss["memory_bytes"]["total"] > document["request"]["budget_bytes"]


def test_a_sweep_over_the_rollouts_own_quantities(lcplan):
    code, document, _ = lcplan("whatif", "sweep", *SAMPLE, "--vary", "generate=1k,2k", "--vary", "kv-dtype=bf16,fp32")
    steps = [point["candidate"]["best"]["tokens_per_s"] for point in document["points"]]
    assert code == 0
    assert [point["generate"] for point in document["points"]] == [1024, 1024, 2048, 2048]
    assert steps[0] > steps[1] > steps[3], "a wider cache and a longer one cost tokens a second"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seq", "4k"], "--seq goes with --workload train; --workload sample takes --prompt and --generate"),
        (["--remat", "full"], "--remat goes with --workload train or rl; --workload sample has no such knob"),
        (
            ["--offload-percent", "50"],
            "--offload-percent goes with --workload train; --workload sample has no such knob",
        ),
        (["--global-batch", "4"], "--global-batch goes with --workload train; --workload sample takes --batch"),
        (["--mesh", "context=2"], "a decode step has one token of each sequence"),
        (["--mesh", "fsdp=16", "--parameters", "replicated"], "use gathered-once or gathered-per-step"),
        (["--mesh", "data=4,tensor=2", "--batch", "4"], "tensor=2 does not divide the 1 sequences of a data x fsdp rank"),
        (["--kv-dtype", "fp4"], "'fp4' is not one of 'bf16', 'fp32', 'fp8'"),
        (["--temperature", "-1"], "-1.0 is not in the range 0<=x<=100"),
        (["--cache", "paged"], "--cache: unknown value 'paged'"),
    ],
)
def test_bad_combinations_are_bad_input(lcplan, arguments, message):
    code, document, err = lcplan("estimate", *SAMPLE, *arguments)
    assert (code, document) == (2, None)
    assert message in err


def test_a_train_step_takes_no_option_of_a_rollout(lcplan):
    base = ["estimate", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32"]
    assert "--prompt goes with --workload sample or rl" in lcplan(*base, "--seq", "4k", "--prompt", "256")[2]
    assert "Missing option '--seq'" in lcplan(*base, "--mesh", "fsdp=16")[2]
    assert "--workload sample needs --generate" in lcplan(*base, "--workload", "sample", "--prompt", "256", "--batch", "8")[2]


def test_questions_of_a_train_step_are_refused_by_name(lcplan):
    assert "max-seq is asked of a train step" in lcplan("whatif", "max-seq", *SAMPLE)[2]
    assert "--vary remat goes with --workload train or rl" in lcplan("whatif", "sweep", *SAMPLE, "--vary", "remat=full")[2]


def test_a_train_steps_plan_has_no_key_of_a_rollout(lcplan):
    code, document, _ = lcplan("estimate", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--seq", "4k", "--mesh", "fsdp=16")
    assert code == 0
    assert "sampling" not in document["candidate"]["strategy"]
    train = {"kind", "seq_len", "global_batch", "document_len", "precision", "global_batch_given"}
    assert set(document["request"]["workload"]) == train


def test_a_layout_of_the_rollout_that_would_fit_is_offered(lcplan):
    """70 B parameters in bf16 on each device of 40 GB do not fit; over tensor they do."""
    asked = ("--prompt", "1k", "--generate", "1k", "--batch", "8", "--parameters", "replicated", "--stages", "modelled")
    code, document, _ = lcplan("search", "--workload", "sample", "--model", "llama3.1-70b", "--hw", "dgx-a100-40", *asked)
    assert code == 1
    assert ["--parameters", "tensor-sharded"] in [change["arguments"] for change in document["changes_that_fit"]]
