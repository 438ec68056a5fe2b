"""A PyTorch trainer's file is priced as that trainer's own step: its state by hand, published peaks."""

import json
from pathlib import Path

import pytest

from cost_models.memory.pytorch import RESERVED_OF_ALLOCATED
from lcplan import catalog
from lcplan.formats.units import GIB

EIGHT = ("--hw", "dgx-h100", "--devices", "8", "--format", "json")
SHORT = ("--model", "llama3.1-8b", "--seq", "4k", "--remat", "full")
PARAMETERS = catalog.model("llama3.1-8b").parameters


@pytest.fixture
def answered(lcplan):
    """The estimate and the imported part of the answer to a file's text."""

    def _answered(trainer, text, *options):
        Path("file.toml").write_text(text)
        answer = lcplan("estimate", f"--from-{trainer}", "file.toml", *options)
        assert answer.code == 0, answer.err
        return answer.json["candidate"]["estimate"], answer.json["imported"]

    return _answered


def zero(stage, **more):
    """A DeepSpeed JSON of one stage."""
    keys = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
    return json.dumps(keys | {"zero_optimization": {"stage": stage, "overlap_comm": False, **more}})


def launch(kind, **more):
    """An Accelerate YAML of one distributed type."""
    keys = {"distributed_type": kind, "mixed_precision": "bf16", "num_processes": 8}
    return json.dumps(keys | more)


@pytest.mark.parametrize(
    ("seq", "context", "measured_gib"), [(32768, 1, 83.9), (65536, 2, 84.2), (131072, 4, 84.0), (262144, 8, 84.5)]
)
def test_torchtitans_peak_with_whole_logits(answered, seq, context, measured_gib):
    """pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table 2: reserved memory of 8 H100 of 96 GB.

    Without a chunked loss, 12 bytes of each of 32768 x 128256 logits are 47 GiB of it; float8 changes no peak.
    """
    text = (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = %d\n[parallelism]\n'
        'data_parallel_shard_degree = %d\ncontext_parallel_degree = %d\n[activation_checkpoint]\nmode = "full"\n'
        "[compile]\nenable = true\n"
    )
    _, found = answered("torchtitan", text % (seq, 8 // context, context), *EIGHT)
    assert found["memory_bytes"] * RESERVED_OF_ALLOCATED / GIB == pytest.approx(measured_gib, rel=0.08)
    assert not found["fits"]  # in 80 GB


def test_torchtitans_selective_checkpointing(answered):
    """The same page, table 1: Llama 3.1 8B, 8 H100, 2 sequences of 8192 a device, eager: 82.4 GiB reserved."""
    text = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n'
    text += '[parallelism]\ndata_parallel_shard_degree = 8\n[activation_checkpoint]\nmode = "selective"\n'
    _, found = answered("torchtitan", text, *EIGHT)
    assert found["memory_bytes"] * RESERVED_OF_ALLOCATED / GIB == pytest.approx(82.4, rel=0.03)


@pytest.mark.parametrize(
    ("stage", "bytes_of_one"),
    [
        (0, 16.0),  # fp32 weights, gradients and moments, whole
        (1, 2.0 + 4.0 + 12.0 / 8),  # bf16 weights and fp32 gradients whole; masters and moments over 8 ranks
        (2, 2.0 + 16.0 / 8),  # gradients over the ranks too
        (3, 16.0 / 8),
    ],
)
def test_state_by_stage_of_zero(answered, stage, bytes_of_one):
    parts, _ = answered("deepspeed", zero(stage), *SHORT, *EIGHT)
    memory = parts["memory_bytes"]
    assert memory["params"] + memory["grads"] + memory["optimizer"] == pytest.approx(bytes_of_one * PARAMETERS, rel=1e-6)


def test_the_launchers_deepspeed_is_the_same_as_its_own_json(answered):
    text = launch("DEEPSPEED", deepspeed_config={"zero_stage": 2})
    parts, found = answered("accelerate", text, *SHORT, "--global-batch", "8", *EIGHT)
    own, _ = answered("deepspeed", zero(2), *SHORT, *EIGHT)
    assert {name: parts["memory_bytes"][name] for name in ("params", "grads", "optimizer")} == {
        name: own["memory_bytes"][name] for name in ("params", "grads", "optimizer")
    }
    assert any("ZeRO-2 splits the optimizer's state and gradients" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("trainer", "text", "more", "bytes_moved"),
    [
        ("deepspeed", zero(3, offload_optimizer={"device": "cpu"}), (), 14.0),  # bf16 weights stay
        ("deepspeed", zero(3, offload_optimizer={"device": "cpu"}, offload_param={"device": "nvme"}), (), 16.0),
        ("deepspeed", zero(1, offload_optimizer={"device": "cpu"}), (), 12.0),  # gradients stay, whole
        ("deepspeed", zero(2, offload_optimizer={"device": "cpu"}), (), 16.0),
        (
            "accelerate",
            launch("FSDP", fsdp_config={"fsdp_version": 2, "fsdp_offload_params": True}),
            ("--global-batch", "8"),
            16.0,
        ),
    ],
)
def test_what_lies_on_the_host_leaves_the_device(answered, trainer, text, more, bytes_moved):
    parts, found = answered(trainer, text, *SHORT, *more, *EIGHT)
    [offload] = [one for one in found["differences"] if one["name"] == "offload"]
    assert -offload["extra_bytes"] == pytest.approx(bytes_moved * PARAMETERS / 8, rel=1e-6)
    assert found["memory_bytes"] == parts["memory_bytes"]["total"]
    assert parts["memory_bytes"]["trainer"] == pytest.approx(offload["extra_bytes"], rel=1e-6)


def test_70b_trains_offloaded_where_it_does_not_without(answered):
    """hiyouga/LlamaFactory#7282: 70B on 8 H200, 1024 tokens: ZeRO-3 runs out of memory, offloaded it takes 27 of 141 GB."""
    run = ("--model", "llama3-70b", "--seq", "1k", "--remat", "full", "--hw", "dgx-h200", "--devices", "8", "--format", "json")
    assert not answered("deepspeed", zero(3), *run)[1]["fits"]
    cpu = {"device": "cpu"}
    offloaded = answered("deepspeed", zero(3, offload_optimizer=cpu, offload_param=cpu), *run)[1]
    assert offloaded["fits"]
    assert offloaded["memory_bytes"] < 27e9


def test_a_host_without_room_is_told(answered):
    """axolotl-ai-cloud/axolotl#1439: 16 x 69e9 bytes of a 70B do not go into the 1 TB of one node."""
    run = (
        "--model",
        "llama2-70b",
        "--seq",
        "2k",
        "--remat",
        "full",
        "--hw",
        "dgx-a100-40",
        "--devices",
        "8",
        "--format",
        "json",
    )
    cpu = {"device": "cpu"}
    _, found = answered("deepspeed", zero(3, offload_optimizer=cpu, offload_param=cpu), *run)
    assert any("more than it has" in one["why"] for one in found["differences"])


def test_shards_may_be_uneven_in_pytorch_alone(answered, lcplan):
    """pytorch/torchtitan#764: FSDP2 pads what 24 ranks do not divide; lcplan's own step does not."""
    text = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
    text += "[parallelism]\ndata_parallel_shard_degree = 24\n"
    parts, found = answered("torchtitan", text, "--hw", "dgx-h100x3", "--format", "json")
    assert found["refusals"] == []
    assert parts["memory_bytes"]["optimizer"] == pytest.approx(8.0 * PARAMETERS / 24, rel=1e-6)
    own = lcplan("estimate", *SHORT, "--hw", "dgx-h100x3", "--mesh", "fsdp=24", "--global-batch", "24")
    assert (own.code, "rule state-shards" in own.err) == (2, True)


def test_a_chunked_loss_that_the_user_names_is_priced_so(answered):
    """huggingface/accelerate#3647: a chunked cross entropy is what makes Qwen2.5-32B at 20k tokens fit."""
    run = ("--model", "qwen2.5-32b", "--seq", "20k", "--remat", "full", "--global-batch", "8", *EIGHT)
    parts, whole = answered("accelerate", launch("FSDP"), *run)
    _, chunks = answered("accelerate", launch("FSDP"), *run, "--loss-chunk-tokens", "2048")
    # 14 bytes a logit: bf16 ones kept, log-softmax, two gradients in fp32
    assert parts["memory_bytes"]["logits_loss"] == pytest.approx(14 * 20480 * 152064, rel=1e-6)
    assert whole["memory_bytes"] - chunks["memory_bytes"] > 35e9


@pytest.mark.parametrize(
    ("model", "offloads", "measured", "step_s"),
    [
        ("qwen3-0.6b", False, 27.9e9, 137),
        ("qwen3-0.6b", True, 20.8e9, 137),
        ("qwen3-8b", True, 56.2e9, 364),
        ("qwen3-8b", False, None, 364),
    ],
)
def test_a_million_tokens_of_accelerate(answered, model, offloads, measured, step_s):
    """huggingface/accelerate#4175 and #4184, 8 H100, cp_size 8, chunked loss: peaks, and out of memory without offload.

    Step times: huggingface/trl#6845; offload costs 0.6 %.
    """
    keys = {"fsdp_version": 2, "activation_checkpointing": True, "activation_checkpointing_offload": offloads}
    text = launch("FSDP", fsdp_config=keys, parallelism_config={"cp_size": 8})
    run = ("--model", model, "--seq", "1m", "--global-batch", "1", "--loss-chunk-tokens", "1024")
    parts, found = answered("accelerate", text, *run, *EIGHT)
    assert parts["step_s"] == pytest.approx(step_s, rel=0.1)
    assert found["fits"] == (measured is not None)
    if measured is not None:
        assert found["memory_bytes"] == pytest.approx(measured, rel=0.15)


def test_the_verdict_names_pytorchs_pool(lcplan):
    Path("ds.json").write_text(zero(3))
    answer = lcplan("estimate", "--from-deepspeed", "ds.json", *SHORT, *EIGHT[:4])
    assert "for runtime, communicators and PyTorch's pool = " in " ".join(answer.out.split())
    own = lcplan("estimate", *SHORT, "--hw", "dgx-h100", "--mesh", "fsdp=8", "--global-batch", "8")
    assert "for runtime and communicators = " in " ".join(own.out.split())


def test_zero_pluspluss_second_shard(answered):
    """deepspeed.ai/tutorials/zeropp: bf16 weights once more within a node of 8."""
    parts, found = answered("deepspeed", zero(3, zero_hpz_partition_size=8), *SHORT, *EIGHT)
    [second] = found["differences"]
    assert second["extra_bytes"] == pytest.approx(2 * PARAMETERS / 8, rel=1e-6)
    assert found["memory_bytes"] == parts["memory_bytes"]["total"]
    assert parts["memory_bytes"]["trainer"] == pytest.approx(second["extra_bytes"], rel=1e-6)
    assert answered("deepspeed", zero(3, zero_hpz_partition_size=1), *SHORT, *EIGHT)[1]["differences"] == []


@pytest.mark.parametrize(("seq", "measured_gib"), [("8k", 63.1), ("16k", 67.0), ("32k", 73.7), ("64k", 90.3)])
def test_a_mixture_of_experts_is_priced_as_the_step_and_by_hand(answered, seq, measured_gib):
    """PrimeIntellect-ai/prime-rl#3234: Qwen3-30B-A3B under FSDP2 on 8 H200, peaks without offload by sequence length.

    What is priced is the step of docs/step.md, whose experts hold fewer rows at once than autograd's: low, the more so the
    longer the sequence (1, 3, 4 and 9 %).
    """
    text = launch("FSDP", fsdp_config={"fsdp_version": 2, "activation_checkpointing": True})
    run = ("--model", "qwen3-30b-a3b", "--seq", seq, "--global-batch", "8", "--loss-chunk-tokens", "1024")
    _, found = answered("accelerate", text, *run, "--hw", "dgx-h200", "--format", "json")
    assert 0.9 * measured_gib < found["memory_bytes"] / GIB < measured_gib
    assert any("lcplan's own step" in note for note in found["notes"])
