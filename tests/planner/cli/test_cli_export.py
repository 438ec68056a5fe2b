"""``lcplan export`` and ``lcplan estimate --from-..`` as a person types them."""

import json

import pytest

SEARCH = ("search", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--devices", "32", "--stages", "modelled")


@pytest.fixture
def planned(lcplan):
    one = ("--mesh", "context=16,tensor=2", "--scheme", "ring-zigzag", "--remat", "full", "--backend", "nccl")
    assert lcplan(*SEARCH, *one, "--microbatches", "16", "--out", "run").code == 0
    return lcplan


@pytest.mark.parametrize(
    ("trainer", "files"),
    [
        ("maxtext", ["maxtext.yml", "launch.sh"]),
        ("megatron", ["megatron.args", "bridge.overrides", "launch.sh"]),
        ("torchtitan", ["lcplan_torchtitan.py", "launch.sh"]),
        ("accelerate", ["accelerate.yaml", "launch.sh"]),
        ("jax", ["train_step.py", "plan.yaml", "launch.sh"]),
    ],
)
def test_files_are_written_beside_the_plan_and_named(planned, tmp_path, trainer, files):
    answer = planned("export", "run", "--to", trainer)
    assert answer.code == 0
    assert answer.err == ""
    for name in files:
        assert f"wrote run/{trainer}/{name}" in answer.out
        assert (tmp_path / "run" / trainer / name).stat().st_size > 0


@pytest.mark.parametrize(
    ("trainer", "reason"), [("deepspeed", "do not compose"), ("levanter", "gathers queries, keys and values")]
)
def test_what_cannot_run_is_bad_input_with_the_reason_and_no_file(planned, tmp_path, trainer, reason):
    answer = planned("export", "run/plan.yaml", "--to", trainer, "--out", "x")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"lcplan: {trainer}: ")
    assert reason in answer.err
    assert not (tmp_path / "x").exists()


def test_the_document(planned):
    document = planned("export", "run/plan.yaml", "--to", "torchtitan", "--out", "x", "--format", "json").json
    assert next(iter(document)) == "schema_version"
    assert document["files"] == ["x/lcplan_torchtitan.py", "x/launch.sh"]
    assert document["trainer"] == {"name": "torchtitan", "package": "torchtitan", "version": "0.3.0", "jax": None}
    assert [difference["name"] for difference in document["differences"]] == ["scheme"]
    assert document["as_planned"]["strategy"]["scheme"] == "ring-zigzag"
    assert document["as_run"]["strategy"]["scheme"] == "all-gather"
    assert document["step_ratio"] == pytest.approx(
        document["as_run"]["estimate"]["step_s"] / document["as_planned"]["estimate"]["step_s"]
    )
    assert (document["check"], document["train_compile"]) == (None, None)


def test_differences_and_their_price_are_shown(planned):
    answer = planned("export", "run", "--to", "torchtitan")
    assert "scheme: ring-zigzag -> all-gather" in answer.out
    assert "together: step" in answer.out
    assert "The trainer runs the plan as it is." in planned("export", "run", "--to", "jax").out


def test_a_changed_file_stays(planned, tmp_path):
    assert planned("export", "run", "--to", "maxtext").code == 0
    file = tmp_path / "run" / "maxtext" / "maxtext.yml"
    file.write_text(file.read_text() + "steps: 7\n")
    answer = planned("export", "run", "--to", "maxtext")
    assert answer.code == 2
    assert "run/maxtext/maxtext.yml was changed since lcplan wrote it" in answer.err
    assert file.read_text().endswith("steps: 7\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "none.yaml", "--to", "maxtext"), "none.yaml: No such file or directory"),
        (("export", "run", "--to", "nemo"), "'nemo' is not one of"),
        (("export", "run"), "Missing option '--to'"),
        (("export", "run", "--to", "maxtext", "--toolchain", "/no/python"), "--toolchain /no/python: not a Python that runs"),
        (("export", "run", "--to", "megatron", "--compile"), "needs --to maxtext and a plan for TPU"),
    ],
)
def test_bad_input(planned, arguments, words):
    answer = planned(*arguments)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_a_check_without_the_trainer_is_a_failed_stage_and_leaves_the_files(planned, tmp_path, monkeypatch):
    monkeypatch.delenv("LCPLAN_MEGATRON_PYTHON", raising=False)
    answer = planned("export", "run", "--to", "megatron", "--check")
    assert answer.code == 3
    assert "set LCPLAN_MEGATRON_PYTHON" in answer.err
    assert (tmp_path / "run" / "megatron" / "megatron.args").exists()


def test_the_own_step_is_checked_by_lowering_it(lcplan):
    arguments = (
        "search",
        "--model",
        "llama-tiny",
        "--seq",
        "256",
        "--hw",
        "cpu-host",
        "--devices",
        "8",
        "--stages",
        "modelled",
    )
    assert lcplan(*arguments, "--out", "tiny").code == 0
    answer = lcplan("export", "tiny", "--to", "jax", "--check")
    assert answer.code == 0, answer.err
    assert "accepts the files and reads the plan back" in answer.out


def test_search_for_a_trainer(lcplan):
    answer = lcplan(*SEARCH, "--for", "torchtitan", "--out", "t", "--format", "json")
    assert answer.code == 0
    assert {candidate["strategy"]["scheme"] for candidate in answer.json["candidates"]} == {"all-gather"}
    assert lcplan("export", "t", "--to", "torchtitan", "--format", "json").json["differences"] == []


def test_an_export_is_read_back_with_an_opinion(planned):
    planned("export", "run", "--to", "maxtext")
    answer = planned("estimate", "--from-maxtext", "run/maxtext/maxtext.yml", "--hw", "gb200-nvl72")
    assert answer.code == 0
    assert "context=16,tensor=2 ring-zigzag remat=full" in answer.out
    assert "run/maxtext/maxtext.yml as MaxText 0.2.5 runs it" in answer.out
    assert "Changes that lcplan recommends" in answer.out


def test_the_opinion_as_a_document(planned):
    planned("export", "run", "--to", "megatron")
    arguments = ("estimate", "--from-megatron", "run/megatron/megatron.args", "--devices", "32", "--hw", "gb200-nvl72")
    document = planned(*arguments, "--format", "json").json
    opinion = document["imported"]
    assert (opinion["trainer"], opinion["unknown_keys"], opinion["refusals"]) == ("megatron", [], [])
    assert opinion["differences"] == []  # the laws of Megatron's own step have its bf16 shard beside the fp32 masters
    held = document["candidate"]["estimate"]["memory_bytes"]["params"]
    assert held == pytest.approx(6 * document["request"]["model"]["parameters"] / 32)
    best = opinion["would_change"]["best"]
    assert best["candidate"]["estimate"]["fits"]
    assert best["candidate"]["strategy"]["devices"] == 32
    assert best["change"]


def test_options_fill_what_the_file_leaves_open_and_may_not_contradict_it(planned):
    planned("export", "run", "--to", "accelerate")
    file = "run/accelerate/accelerate.yaml"
    missing = planned("estimate", "--from-accelerate", file, "--hw", "gb200-nvl72")
    assert missing.code == 2
    assert f"Missing option '--model', '--seq' (nor does {file} say it)." in missing.err
    more = ("--model", "llama3-8b", "--seq", "256k", "--global-batch", "16", "--microbatches", "16")
    assert planned("estimate", "--from-accelerate", file, "--hw", "gb200-nvl72", *more).code == 0
    clash = planned("estimate", "--from-accelerate", file, "--hw", "gb200-nvl72", *more, "--remat", "none")
    assert clash.code == 2
    assert f"--remat save-all: {file} has full; leave the option out" in clash.err


def test_two_files_are_one_too_many(planned):
    answer = planned("estimate", "--from-maxtext", "a", "--from-megatron", "b", "--hw", "gb200-nvl72")
    assert (answer.code, answer.err) == (2, "lcplan: --from-maxtext and --from-megatron: give one of them\n")


def test_without_a_file_the_usual_options_are_still_needed(lcplan):
    answer = lcplan("estimate", "--hw", "gb200-nvl72")
    assert answer.code == 2
    assert "Missing option '--model', '--seq'." in answer.err


@pytest.mark.parametrize("name", ["maxtext", "megatron", "torchtitan", "accelerate", "deepspeed"])
@pytest.mark.parametrize("text", ["", "\x00\xff", "{" * 5000, json.dumps([1]), "--", "a: &a [*a]"])
def test_nonsense_is_bad_input_without_a_traceback(lcplan, tmp_path, name, text):
    (tmp_path / "file").write_bytes(text.encode("latin-1"))
    answer = lcplan(
        "estimate", f"--from-{name}", "file", "--hw", "gb200-nvl72", "--devices", "8", "--model", "llama3-8b", "--seq", "8k"
    )
    assert answer.code == 2
    assert answer.err.startswith(("lcplan: file", "Usage"))
    assert "Traceback" not in answer.err


@pytest.fixture
def too_large(lcplan):
    """A plan that fits lcplan's step by its chunked loss, and Accelerate's whole logits do not."""
    one = ("--mesh", "fsdp=8", "--remat", "full", "--backend", "nccl", "--microbatches", "1", "--global-batch", "8")
    size = ("--model", "llama3.1-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled", "--out", "large")
    assert lcplan("search", *size, *one).code == 0
    return lcplan


def test_a_job_that_does_not_fit_is_not_written(too_large, tmp_path):
    answer = too_large("export", "large", "--to", "accelerate")
    assert answer.code == 1
    assert "that does not fit the budget" in " ".join(answer.out.split())
    assert answer.err.startswith("lcplan: accelerate: the plan as it runs needs ")
    assert "the fastest that fits on as many devices has mesh fsdp=8 -> " in answer.err
    assert "--force writes the files" in answer.err
    assert not (tmp_path / "large" / "accelerate").exists()


def test_force_writes_it(too_large, tmp_path):
    answer = too_large("export", "large", "--to", "accelerate", "--force")
    assert (answer.code, answer.err) == (0, "")
    assert (tmp_path / "large" / "accelerate" / "accelerate.yaml").exists()


def test_the_document_of_a_job_that_does_not_fit_has_no_file(too_large):
    answer = too_large("export", "large", "--to", "accelerate", "--format", "json")
    assert answer.code == 1
    assert (answer.json["files"], answer.json["as_run"]["fits"]) == ([], False)


def test_a_plan_that_keeps_all_recomputes_where_the_trainer_would_not_fit(lcplan, tmp_path):
    job = ("--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--devices", "32", "--mesh", "context=16,tensor=2")
    assert lcplan("search", *job, "--remat", "save-all", "--stages", "modelled", "--out", str(tmp_path / "run")).code == 0
    answer = lcplan("export", str(tmp_path / "run"), "--to", "accelerate", "--out", str(tmp_path / "out"), "--format", "json")
    assert answer.code == 0
    changed = {one["name"]: (one["plan"], one["trainer"]) for one in answer.json["differences"]}
    assert changed["remat"] == ("save-all", "full")
