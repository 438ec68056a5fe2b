"""Files of trainers in whatif, search, explain and export: the plan of the file is asked about, shown and converted."""

import json

import pytest

MAXTEXT = """
model_name: llama3.1-8b
max_target_length: 32768
per_device_batch_size: 0.25
ici_fsdp_parallelism: 8
ici_context_parallelism: 4
attention: flash
remat_policy: full
dataset_type: synthetic
packing: false
"""
FSDP = """
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config: {fsdp_version: 2, fsdp_activation_checkpointing: true, fsdp_reshard_after_forward: true}
"""
SLICE = ("--hw", "v5p-64")


@pytest.fixture
def asked(lcplan, tmp_path):
    """The document of a command about one of the files."""
    (tmp_path / "run.yml").write_text(MAXTEXT)
    (tmp_path / "fsdp.yaml").write_text(FSDP)

    def _asked(*words, code=0):
        found = lcplan(*words, "--format", "json")
        assert found.code == code, found.err
        return found.json

    return _asked


def test_the_longest_sequence_of_a_file_fits_by_its_own_estimate_and_the_next_does_not(asked, tmp_path):
    answer = asked("whatif", "max-seq", "--from-maxtext", "run.yml", *SLICE)["answer"]
    assert answer["seq_len"] % 2048 == 0  # four context ranks with blocks of 512
    for length, fits in ((answer["seq_len"], True), (answer["next"]["value"], False)):
        (tmp_path / "run.yml").write_text(MAXTEXT.replace("32768", str(length)))
        found = asked("estimate", "--from-maxtext", "run.yml", *SLICE)
        assert found["candidate"]["best"]["fits"] is fits
    assert answer["candidate"]["strategy"]["mesh"]["context"] == 4


def test_the_longest_sequence_of_a_pytorch_file_has_whole_logits(asked):
    words = ("--from-accelerate", "fsdp.yaml", "--model", "llama3.1-8b", "--global-batch", "8", "--hw", "dgx-h100")
    answer = asked("whatif", "max-seq", *words)["answer"]
    found = asked("estimate", *words, "--seq", str(answer["seq_len"]))
    assert found["candidate"]["best"]["fits"] is True
    assert found["candidate"]["best"]["memory_bytes"] == answer["candidate"]["best"]["memory_bytes"]


def test_the_largest_batch_is_without_accumulation(asked):
    answer = asked("whatif", "max-batch", "--from-maxtext", "run.yml", *SLICE)["answer"]
    assert answer["candidate"]["strategy"]["microbatches"] == 1
    assert answer["global_batch"] % 8 == 0


def test_a_sweep_shows_the_files_plan_at_every_point(asked):
    points = asked("whatif", "sweep", "--from-maxtext", "run.yml", *SLICE, "--vary", "seq=32k,64k")["points"]
    meshes = [point["candidate"]["strategy"]["mesh"]["context"] for point in points]
    assert meshes == [4, 4]


def test_a_search_starts_from_the_files_request(asked):
    found = asked("search", "--from-maxtext", "run.yml", *SLICE, "--stages", "modelled", "--for", "maxtext", "--out", "run")
    work = found["request"]["workload"]
    assert (work["seq_len"], work["global_batch"]) == (32768, 8)
    own = found["imported"]["candidate"]
    assert own["strategy"]["mesh"]["context"] == 4
    assert found["winner"]["best"]["step_s"] <= own["best"]["step_s"]


def test_a_search_shows_the_files_plan(lcplan, asked):
    shown = lcplan("search", "--from-maxtext", "run.yml", *SLICE, "--mesh", "context=1", "--stages", "modelled").out
    assert "The plan of run.yml" in shown
    assert "the winner's step takes" in shown


def test_a_files_plan_is_explained(asked):
    found = asked("explain", "--from-maxtext", "run.yml", *SLICE)
    assert found["candidate"]["strategy"]["mesh"]["fsdp"] == 8
    assert found["cost"]


def test_a_files_plan_is_converted(asked, tmp_path):
    found = asked("export", "--from-maxtext", "run.yml", *SLICE, "--for", "levanter", "--out", "there")
    assert found["trainer"]["name"] == "levanter"
    back = asked("estimate", "--from-levanter", "there/levanter.yaml", *SLICE, "--model", "llama3.1-8b")
    assert back["candidate"]["strategy"]["mesh"]["context"] == 4
    assert (tmp_path / "there" / "launch.sh").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain",), "explain takes a run or a plan, or a file of a trainer"),
        (("export", "--to", "jax"), "export takes a plan or a run, or a file of a trainer"),
        (("export", "plan.yaml", "--from-maxtext", "run.yml", *SLICE, "--to", "jax"), "give one of them"),
        (("whatif", "max-seq", "--from-maxtext", "run.yml", *SLICE, "--seq", "8k"), "leave --seq out"),
        (("whatif", "max-seq", "--from-maxtext", "run.yml", *SLICE, "--compile"), "builds lcplan's own step"),
        (("whatif", "max-seq", "--from-maxtext", "run.yml", *SLICE, "--vary", "batch=1,2"), "use sweep"),
        (("search", "--from-maxtext", "run.yml", *SLICE, "--global-batch", "16"), "run.yml has 8; leave the option out"),
        (("whatif", "max-seq"), "Missing option '--model', '--hw'"),
    ],
)
def test_what_does_not_go_together_is_bad_input(lcplan, asked, words, says):
    found = lcplan(*words)
    assert found.code == 2
    assert says in " ".join(found.err.split())


def test_a_file_with_parts_without_a_price_has_no_longest_sequence(lcplan, tmp_path):
    (tmp_path / "lora.yaml").write_text(json.dumps({"base_model": "meta-llama/Llama-3.1-8B", "adapter": "lora"}))
    found = lcplan("whatif", "max-seq", "--from-axolotl", "lora.yaml", "--hw", "dgx-h100")
    assert found.code == 2
    assert "adapter lora" in found.err
