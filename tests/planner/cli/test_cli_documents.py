"""``--document-len`` as a person types it: estimate, search, whatif, explain, export."""

import pytest
import yaml

ASKED = ("--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--devices", "32")
ONE = ("--mesh", "context=16,tensor=2", "--scheme", "ring-zigzag", "--remat", "full", "--backend", "nccl")


def step_s(answer):
    assert answer.code == 0
    return answer.json["candidate"]["estimate"]["step_s"]


def test_estimate_says_documents_and_what_they_save(lcplan):
    asked = ("estimate", *ASKED, *ONE)
    whole, short = (lcplan(*asked, *more, "--format", "json") for more in ((), ("--document-len", "8k")))
    assert short.json["request"]["workload"]["document_len"] == 8192
    assert whole.json["request"]["workload"]["document_len"] is None
    assert step_s(short) < step_s(whole) / 3
    assert "16 x 256k tokens per step in documents of 8k" in " ".join(lcplan(*asked, "--document-len", "8k").out.split())


def test_one_document_a_sequence_is_no_document(lcplan):
    asked = ("estimate", *ASKED, *ONE, "--format", "json")
    assert step_s(lcplan(*asked, "--document-len", "256k")) == pytest.approx(step_s(lcplan(*asked)), rel=1e-4)


def test_a_sweep_over_documents(lcplan):
    sweep = ("whatif", "sweep", *ASKED, *ONE, "--vary", "document-len=8k..256k", "--format", "json")
    points = lcplan(*sweep).json["points"]
    assert [point["document-len"] for point in points] == [2**power for power in range(13, 19)]
    steps = [point["candidate"]["estimate"]["step_s"] for point in points]
    assert steps == sorted(steps)


def test_the_longest_sequence_of_short_documents(lcplan):
    asked = ("whatif", "max-seq", "--model", "llama3-8b", "--hw", "dgx-h100", "--devices", "8", "--global-batch", "1")
    answer = lcplan(*asked, "--document-len", "16k", "--format", "json")
    assert answer.code == 0
    assert answer.json["answer"]["seq_len"] > 2**18
    assert answer.json["request"]["workload"]["document_len"] == 16384


def test_rollouts_are_not_packed(lcplan):
    rollout = ("estimate", "--model", "llama3-8b", "--hw", "dgx-h100", "--workload", "sample")
    sizes = ("--prompt", "256", "--generate", "256", "--batch", "64")
    answer = lcplan(*rollout, *sizes, "--document-len", "64")
    assert answer.code == 2
    assert "--document-len goes with --workload train; --workload sample takes one prompt per sequence, unpacked" in answer.err
    answer = lcplan("whatif", "sweep", *rollout[1:], *sizes, "--vary", "document-len=64")
    assert answer.code == 2
    assert "--vary document-len goes with --workload train" in answer.err


@pytest.fixture
def planned(lcplan):
    search = ("search", *ASKED, *ONE, "--microbatches", "16", "--document-len", "8k", "--stages", "modelled", "--out", "run")
    assert lcplan(*search).code == 0
    return lcplan


def test_a_plan_keeps_them(planned, tmp_path):
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert plan["request"]["workload"]["document_len"] == 8192
    assert planned("explain", "run").code == 0
    assert planned("export", "run", "--to", "jax", "--format", "json").json["differences"] == []
    assert yaml.safe_load((tmp_path / "run" / "jax" / "plan.yaml").read_text())["request"] == plan["request"]


def test_maxtext_packs(planned, tmp_path):
    document = planned("export", "run", "--to", "maxtext", "--format", "json").json
    assert "documents" not in [difference["name"] for difference in document["differences"]]
    written = yaml.safe_load((tmp_path / "run" / "maxtext" / "maxtext.yml").read_text())
    planned_for = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())["request"]["workload"]
    assert written["packing"] is True
    # configs/types.py: Transformer Engine and packing need the most documents of a sequence
    assert written["max_segments_per_seq"] == planned_for["seq_len"] // 8192


@pytest.mark.parametrize("trainer", ["megatron", "torchtitan", "accelerate"])
def test_where_they_are_lost_whole_sequences_are_priced(planned, trainer):
    document = planned("export", "run", "--to", trainer, "--format", "json").json
    lost = next(difference for difference in document["differences"] if difference["name"] == "documents")
    assert (lost["plan"], lost["trainer"]) == ("attention inside documents of 8k tokens", "attention over whole sequences")
    assert "lcplan knows no key" in lost["why"]
    assert lost["step_s_change"] > 2 * document["as_planned"]["estimate"]["step_s"]
    assert document["step_ratio"] > 2
