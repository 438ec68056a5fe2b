"""Memory that people's files take and that a verdict must have: gathered weights, scores, state on the host, its dtypes."""

import json
from pathlib import Path

import pytest

GIB = 2**30
STAYS = {"fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_activation_checkpointing": True}
SEVENTY = ("--model", "llama3.3-70b", "--seq", "8k", "--global-batch", "64", "--hw", "dgx-h100x8")
SPLIT = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": True}}
CPU = {"device": "cpu"}


@pytest.fixture
def opinion(lcplan, tmp_path):
    """The opinion of a file of one trainer, and the estimate of its strategy."""

    def _opinion(trainer, text, *options):
        file = tmp_path / {"torchtitan": "run.toml"}.get(trainer, "run.txt")
        file.write_text(text if isinstance(text, str) else json.dumps(text))
        answer = lcplan("estimate", f"--from-{trainer}", str(file), *options, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["imported"], answer.json["candidate"]["estimate"]["memory_bytes"]

    return _opinion


def need(found):
    return found["memory_bytes"] + found["allowance_bytes"]


@pytest.mark.parametrize("stays", [{"fsdp_reshard_after_forward": False}, {"fsdp_reshard_after_forward": True}])
def test_weights_that_stay_gathered(opinion, stays):
    """2 x 70.6e9 bytes of bf16 weights a device; with resharding two layers at a time."""
    launch = {"distributed_type": "FSDP", "mixed_precision": "bf16", "num_machines": 8, "num_processes": 64}
    found, parts = opinion("accelerate", launch | {"fsdp_config": STAYS | stays}, *SEVENTY)
    kept = not stays["fsdp_reshard_after_forward"]
    assert found["fits"] != kept
    assert (parts["gathered_weights"] > 131 * GIB) == kept


def test_torchtitan_never_reshards(opinion):
    text = '[model]\nname = "llama3"\nflavor = "70B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
    text += '[parallelism]\ndata_parallel_shard_degree = 64\nfsdp_reshard_after_forward = "{}"\n'
    text += '[activation_checkpoint]\nmode = "full"\n'
    never, always = (opinion("torchtitan", text.format(word), "--hw", "dgx-h100x8") for word in ("never", "always"))
    assert (never[0]["fits"], always[0]["fits"]) == (False, True)
    assert never[1]["gathered_weights"] == pytest.approx(2 * 70.55e9, rel=1e-3)


def test_weights_of_a_mixture_stay_gathered_too(opinion):
    """The cost model prices a mixture as lcplan's step, so the weights are counted beside it."""
    text = "[training]\nlocal_batch_size = 1\nseq_len = 4096\n[parallelism]\ndata_parallel_shard_degree = 16\n"
    text += 'fsdp_reshard_after_forward = "never"\n'
    found, _ = opinion("torchtitan", text, "--model", "qwen3-30b-a3b", "--hw", "dgx-h100x2")
    [kept] = [one for one in found["differences"] if one["name"] == "gathered-weights"]
    assert kept["extra_bytes"] == pytest.approx(2 * 30.53e9, rel=1e-3)


@pytest.mark.parametrize(("dtype", "bytes_per_parameter"), [("float32", 16), ("bfloat16", 8)])
def test_torchtitans_dtype_of_training(opinion, dtype, bytes_per_parameter):
    text = '[model]\nname = "llama3"\nflavor = "8B"\n[activation_checkpoint]\nmode = "full"\n'
    text += (
        f'[training]\nlocal_batch_size = 1\nseq_len = 8192\ndtype = "{dtype}"\n[parallelism]\ndata_parallel_shard_degree = 8\n'
    )
    found, parts = opinion("torchtitan", text, "--hw", "dgx-h100")
    state = parts["params"] + parts["optimizer"] + parts["grads"] + sum(one["extra_bytes"] for one in found["differences"])
    assert state == pytest.approx(bytes_per_parameter * 8.03e9 / 8, rel=2e-3)


def test_deepspeeds_bf16_state(opinion):
    run = ("--model", "llama3-8b", "--seq", "512", "--hw", "dgx-h100", "--devices", "4", "--remat", "full")
    halves = SPLIT | {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}}
    whole, half = (opinion("deepspeed", one | {"zero_optimization": {"stage": 3}}, *run)[0] for one in (SPLIT, halves))
    pool = half["allowance_bytes"] - whole["allowance_bytes"]
    assert half["memory_bytes"] - whole["memory_bytes"] == pytest.approx(-8 * 8.03e9 / 4, rel=1e-2)
    assert pool < 0


def test_twin_flow_offloads_a_share(opinion):
    """offload_optimizer.ratio: 14 bytes of 0.3 of 70.6e9 parameters over 16 devices leave them."""
    run = ("--model", "llama3.1-70b", "--seq", "4k", "--hw", "dgx-h100x2", "--devices", "16", "--remat", "full")
    found, _ = opinion(
        "deepspeed", SPLIT | {"zero_optimization": {"stage": 3, "offload_optimizer": CPU | {"ratio": 0.3}}}, *run
    )
    [moved] = [one for one in found["differences"] if one["name"] == "offload"]
    assert moved["extra_bytes"] == pytest.approx(-0.3 * 14 * 70.55e9 / 16, rel=1e-3)
    assert not found["fits"]


OFFLOADED = {"zero_optimization": {"stage": 3, "offload_optimizer": CPU, "offload_param": CPU}}


@pytest.mark.parametrize(
    ("model", "more", "options", "fits"),
    [
        ("llama3.1-405b", {}, ("--seq", "4k", "--global-batch", "8", "--devices", "8", "--remat", "full"), False),
        ("qwen2.5-32b", {}, ("--seq", "8k", "--global-batch", "1", "--devices", "1", "--remat", "full"), True),
        (
            "llama3.1-70b",
            {"sequence_parallel_size": 8},
            (
                "--seq",
                "1m",
                "--global-batch",
                "1",
                "--devices",
                "8",
                "--remat",
                "offload-layer-in",
                "--loss-chunk-tokens",
                "1024",
            ),
            False,
        ),
    ],
)
def test_the_host_is_part_of_the_verdict(opinion, model, more, options, fits):
    """State, checkpoints and the devices of one host: 16 bytes of 405e9 parameters; of 32.8e9; 1 TiB and 8 x 160 GiB."""
    file = {key: value for key, value in SPLIT.items() if key != "gradient_accumulation_steps"} | OFFLOADED | more
    found, _ = opinion("deepspeed", file, "--model", model, "--hw", "dgx-h100", *options)
    assert (found["host_bytes"] <= found["host_memory_bytes"]) == fits
    assert found["fits"] == fits
    assert model != "llama3.1-405b" or need(found) <= 72.8 * GIB  # the host alone decides


ARGUMENTS = (
    "--num-layers 64 --hidden-size 5120 --ffn-hidden-size 25600 --num-attention-heads 64 --kv-channels 128 "
    "--group-query-attention --num-query-groups 8 --qk-layernorm --swiglu --normalization RMSNorm "
    "--position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 151936 "
    "--tensor-model-parallel-size 8 --sequence-parallel --seq-length 32768 --max-position-embeddings 32768 "
    "--micro-batch-size 1 --global-batch-size 8 --bf16 --use-distributed-optimizer --recompute-granularity full "
    "--recompute-method uniform --recompute-num-layers 1 --no-create-attention-mask-in-dataloader "
)
RING = "--context-parallel-size 2 --cp-comm-type p2p "
MEGATRON = ("--hw", "dgx-h100x8", "--devices", "64")


def test_scores_of_unfused_attention(opinion):
    """32768 x 32768 scores of 8 heads a rank, 5 bytes each (Korthikanti et al., arXiv:2205.05198), in one layer."""
    fused, unfused = (opinion("megatron", ARGUMENTS + more, *MEGATRON) for more in ("", "--attention-backend unfused"))
    assert unfused[1]["working_set"] - fused[1]["working_set"] > 30 * GIB
    assert (fused[0]["fits"], unfused[0]["fits"]) == (True, False)


def test_multi_token_prediction(opinion):
    plain, more = (opinion("megatron", ARGUMENTS + words, *MEGATRON)[0] for words in ("", "--mtp-num-layers 1"))
    [found] = [one for one in more["differences"] if one["name"] == "multi-token-prediction"]
    # a layer of 483.4e6 and a projection of 52.4e6 parameters over 8 tensor ranks; logits of 32768 tokens, 6 bytes each
    parameters, logits = (483.4e6 + 52.4e6) / 8, 6 * 32768 * 151936 / 8
    assert found["extra_bytes"] == pytest.approx(parameters * (6 + 12 / 8) + logits, rel=1e-2)
    assert need(more) > need(plain)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "--context-parallel-size 2 --cp-comm-type p2p --softmax-type learnable",
            "--softmax-type learnable run over context only",
        ),
        (
            "--context-parallel-size 2 --cp-comm-type p2p --window-size 128 0",
            "layers with --window-size 128 0 have no attention",
        ),
        ("--cpu-offloading-num-layers 4", "--cpu-offloading-num-layers does not go with recomputation"),
    ],
)
def test_arguments_that_megatron_refuses(opinion, words, reason):
    found, _ = opinion("megatron", ARGUMENTS + words, *MEGATRON)
    assert any(reason in one for one in found["refusals"])


@pytest.mark.parametrize(
    ("trainer", "text", "options", "note"),
    [
        ("megatron", ARGUMENTS + "--reset-attention-mask", MEGATRON, "--reset-attention-mask: attention is priced over whole"),
        ("megatron", ARGUMENTS + "--attention-dropout 0.1", MEGATRON, "--attention-dropout 0.1: a fused kernel keeps no mask"),
        (
            "deepspeed",
            SPLIT | {"data_types": {"grad_accum_dtype": "bf16"}, "optimizer": {"type": "Muon"}},
            ("--model", "llama3-8b", "--seq", "8k", "--hw", "dgx-h100", "--devices", "8", "--remat", "full"),
            "optimizer.type Muon: lcplan prices AdamW",
        ),
    ],
)
def test_keys_that_are_not_priced_have_a_note(opinion, trainer, text, options, note):
    found, _ = opinion(trainer, text, *options)
    assert any(note in one for one in found["notes"])


def test_latent_attention_is_not_guessed(lcplan):
    Path("args.txt").write_text(ARGUMENTS + "--multi-latent-attention")
    answer = lcplan("estimate", "--from-megatron", "args.txt", *MEGATRON)
    assert answer.code == 2
    assert "lcplan reads no latent attention from arguments: give --model" in answer.err
