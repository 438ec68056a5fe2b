"""``--workload rl``: an iteration's memory is the larger of its parts, its time their sum."""

import pytest

RL = ["--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--workload", "rl"]
RL += ["--prompt", "256", "--generate", "768", "--batch", "256"]


@pytest.mark.parametrize("extra", [[], ["--remat", "none", "--microbatches", "1"], ["--parameters", "gathered-per-step"]])
def test_an_iteration_is_a_rollout_and_a_train_step(lcplan, extra):
    _, document, _ = lcplan("estimate", *RL, "--mesh", "fsdp=16", *extra)
    estimate = document["candidate"]["estimate"]
    train_knobs = [word for word in extra if word not in ("--parameters", "gathered-per-step")]
    base = ["estimate", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--mesh", "fsdp=16"]
    _, trained, _ = lcplan(*base, "--seq", "1024", "--global-batch", "256", *train_knobs)
    rollout = ["--prompt", "256", "--generate", "768", "--batch", "256"]
    layout = "gathered-per-step" if "gathered-per-step" in extra else "gathered-once"
    _, sampled, _ = lcplan(*base, "--workload", "sample", *rollout, "--parameters", layout)
    train, sample = (answer["candidate"]["estimate"] for answer in (trained, sampled))
    assert estimate["step_s"] == pytest.approx(train["step_s"] + sample["step_s"])
    values = 8 * 256 * 1024 / 16  # advantages and old log-probabilities of a device's tokens
    resident = train["memory_bytes"]["params"] + train["memory_bytes"]["optimizer"]
    beside = resident + sample["memory_bytes"]["total"] - sample["memory_bytes"]["params"]
    assert estimate["train_bytes"] == pytest.approx(train["memory_bytes"]["total"] + values)
    assert estimate["rollout_bytes"] == pytest.approx(beside)
    assert estimate["memory_bytes"]["total"] == pytest.approx(max(estimate["train_bytes"], beside), rel=1e-6)
    assert estimate["memory_phase"].startswith("rollout_") == (beside > estimate["train_bytes"])


def test_search_reshards_to_a_rollout_on_another_mesh(lcplan):
    code, document, _ = lcplan("search", *RL, "--devices", "16", "--stages", "modelled", "--parameters", "tensor-sharded")
    assert code == 0
    for candidate in document["candidates"]:
        rollout = candidate["strategy"]["sampling"]
        assert rollout["beside_training"]
        assert rollout["mesh"]["tensor"] > 1
        assert rollout["mesh"]["data"] * rollout["mesh"]["tensor"] == candidate["strategy"]["devices"] == 16
        assert candidate["estimate"]["time_s"]["reshard"] > 0


@pytest.mark.parametrize(
    ("mesh", "rollout", "moves"),
    [("fsdp=16", "fsdp=16", False), ("fsdp=8,tensor=2", "fsdp=16", True), ("fsdp=16", "data=4,tensor=4", True)],
)
def test_a_rollout_has_a_mesh_of_its_own(lcplan, mesh, rollout, moves):
    code, document, _ = lcplan("estimate", *RL, "--mesh", mesh, "--rollout-mesh", rollout)
    assert code == 0
    estimate = document["candidate"]["estimate"]
    sizes = dict(part.split("=") for part in rollout.split(","))
    own = document["candidate"]["strategy"]["sampling"]["mesh"]
    assert {axis: str(size) for axis, size in own.items() if size > 1} == sizes
    assert (estimate["time_s"]["reshard"] > 0) == moves
    shards = estimate["memory_bytes"]["rollout_params"]
    assert (shards > 0) == (moves and estimate["memory_phase"].startswith("rollout"))


def test_a_search_keeps_to_the_rollouts_mesh(lcplan):
    options = ["--devices", "16", "--stages", "modelled", "--rollout-mesh", "tensor=2..4"]
    code, document, _ = lcplan("search", *RL, *options)
    assert code == 0
    meshes = [candidate["strategy"]["sampling"]["mesh"] for candidate in document["candidates"]]
    assert {mesh["tensor"] for mesh in meshes} <= {2, 4}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rollout-mesh", "fsdp=8"], "--rollout-mesh fsdp=8 takes 8 devices, the train step 16; use as many"),
        (["--rollout-mesh", "tensor=1,2"], "--rollout-mesh tensor: estimate prices one strategy; give one size"),
        (["--rollout-mesh", "context=16"], "a decode step has one token of each sequence; use data, fsdp and tensor"),
        (["--rollout-mesh", "tensr=16"], "--rollout-mesh: unknown axis 'tensr'; did you mean 'tensor'?"),
        (["--kl-coefficient", "-1"], "-1.0 is not in the range 0<=x<=100"),
        (["--old-log-probs", "sampled"], "'sampled' is not one of 'rollout', 'recomputed'"),
    ],
)
def test_wrong_options_of_an_iteration(lcplan, options, words):
    code, document, err = lcplan("estimate", *RL, "--mesh", "fsdp=16", *options)
    assert (code, document) == (2, None)
    assert words in " ".join(err.split())


def test_options_of_an_iteration_are_refused_elsewhere(lcplan):
    sample = ["--prompt", "256", "--generate", "768", "--batch", "256", "--workload", "sample"]
    base = ["estimate", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--mesh", "fsdp=16"]
    assert (
        "--kl-coefficient goes with --workload rl; --workload sample updates no policy"
        in lcplan(*base, *sample, "--kl-coefficient", "0.1")[2]
    )
    assert "--rollout-mesh goes with --workload rl" in lcplan(*base, "--seq", "4k", "--rollout-mesh", "data=16")[2]


def test_larger_batches_need_more_and_the_best_is_given_at_each(lcplan):
    code, document, _ = lcplan("whatif", "sweep", *RL, "--vary", "batch=128,1024", "--mesh", "fsdp=16", "--microbatches", "1")
    assert code == 0
    needs = [point["candidate"]["estimate"]["rollout_bytes"] for point in document["points"]]
    assert needs[1] > needs[0]


def test_what_an_iteration_is_not_asked(lcplan):
    assert "max-batch is asked of a train step or a rollout" in lcplan("whatif", "max-batch", *RL)[2]
    assert "--seq goes with --workload train" in lcplan("estimate", *RL, "--seq", "4k")[2]


def test_a_rollouts_compile_teaches_nothing_of_a_train_step():
    import planner
    from lcplan.evidence.measurement import Compiled
    from planner.candidates.learning import learn_from_compile
    from planner.space.analysis import setting_of

    sizes = {"prompt": 256, "generate": 1024, "batch": 512}
    found = planner.estimate(workload="sample", model="qwen3-1.7b", hw="tpu-v4-32", mesh="fsdp=16", **sizes)
    gather = {"op": "all-gather", "axis": "fsdp", "bytes": 25165824, "calls": 84, "backend": "ici"}
    facts = {"rung": "compiled:target", "target": "tpu", "jax": "0", "finished_at": "", "compile_s": 1.0, "total_bytes": 2**30}
    compiled = Compiled.model_validate({**facts, "collectives": [gather]})
    candidate = found.candidate.with_compiled(compiled, found.request.budget_bytes)
    learnt = learn_from_compile(setting_of(found.request), candidate)
    assert learnt == candidate
    assert learnt.best.step_s == found.candidate.estimate["step_s"]
