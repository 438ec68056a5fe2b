"""What a trainer refuses of its own file, or runs wrongly: by keys that lcplan has no knob for; with the source."""

import json
from pathlib import Path

import pytest

GPU = ("--hw", "dgx-h100x2", "--devices", "16")
TPU = ("--hw", "tpu-v5p-32", "--devices", "16")
MAXTEXT = {
    "model_name": "llama3-8b",
    "max_target_length": 131072,
    "per_device_batch_size": 1,
    "ici_fsdp_parallelism": 4,
    "ici_context_parallelism": 4,
    "context_parallel_strategy": "all_gather",
    "packing": False,
}
MEGATRON = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 128256 --use-distributed-optimizer "
    "--micro-batch-size 1 --context-parallel-size 4"
)


TE = {"hardware": "gpu", "attention": "cudnn_flash_te", "max_segments_per_seq": 32}
"""Over MAXTEXT on GPU, unless a case says otherwise."""
SPLASH = {"attention": "flash", "use_tokamax_splash": True}
ULYSSES = {**SPLASH, "context_parallel_strategy": "ulysses", "context_parallel_load_balance": False}
RING = {**SPLASH, "context_parallel_strategy": "ring"}
WHOLE = {"ici_context_parallelism": 1, "ici_fsdp_parallelism": 16}


@pytest.fixture
def maxtext(lcplan):
    """The refusals of a MaxText file with some keys changed."""

    def _maxtext(machine, **keys):
        own = TE if machine == GPU else {}
        lines = [f"{key}: {json.dumps(value)}" for key, value in (MAXTEXT | own | keys).items() if value is not None]
        Path("run.yml").write_text("\n".join(lines))
        answer = lcplan("estimate", "--from-maxtext", "run.yml", *machine, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["imported"]

    return _maxtext


@pytest.fixture
def megatron(lcplan):
    """The imported part of the answer to a file of Megatron arguments."""

    def _megatron(more, code=0):
        Path("args.txt").write_text(f"{MEGATRON} {more}")
        answer = lcplan("estimate", "--from-megatron", "args.txt", *GPU, "--format", "json")
        assert answer.code == code, answer.err
        return answer.json["imported"] if code == 0 else answer.err

    return _megatron


@pytest.mark.parametrize(
    ("machine", "keys", "says"),
    [
        # AI-Hypercomputer/maxtext, utils/train_utils.py: what runs packed
        (GPU, {"packing": True}, "on GPU runs only as a balanced ring, not as all_gather"),
        (GPU, {"packing": None}, "packing (true unless set)"),
        (GPU, {"packing": True, "context_parallel_strategy": "ring", "context_parallel_load_balance": False}, "balanced ring"),
        # configs/types.py and pull request 2600: Transformer Engine must know how many documents there are
        (GPU, {**WHOLE, "packing": True, "max_segments_per_seq": None}, "needs max_segments_per_seq above 0, not -1"),
        # issue 4476: documents attend to each other, and nothing says so
        (GPU, {**WHOLE, "packing": True, "attention": "cudnn_flash_jax"}, "attends across the documents of a sequence unsaid"),
        # configs/types.py: Ulysses
        (TPU, {**SPLASH, "context_parallel_strategy": "ulysses"}, "needs context_parallel_load_balance: false"),
        (GPU, ULYSSES, "Ulysses on TPU only"),
        (TPU, ULYSSES | {"attention": None}, "the file has attention: autoselected; set attention: flash"),
        (TPU, ULYSSES | {"use_jax_splash": True}, "the file has use_jax_splash: true"),
        (TPU, ULYSSES | WHOLE, "ulysses on TPU needs a context axis above 1"),
        (TPU, ULYSSES | {"model_name": "deepseek3-671b"}, "ulysses on TPU has no latent attention"),
        # configs/types.py and pull requests 4266, 4537: the ring of TPU
        (TPU, RING | {"attention": None, "use_tokamax_splash": None}, "autoselected, use_tokamax_splash: false; set attention"),
        (TPU, RING | WHOLE, "ring on TPU needs a context axis above 1"),
        (TPU, RING | {"dq_reduction_steps": 2}, "dq_reduction_steps=2 with ring on TPU; use 0 or 3"),
        (TPU, RING | {"mtp_num_layers": 1}, "no multi-token prediction"),
        (TPU, RING | {"dropout_rate": 0.1}, "ring on TPU has no dropout"),
        (TPU, RING | {"attention_sink": True, "moba": True}, "ring on TPU has no MoBA, no attention sinks"),
        (TPU, RING | {"model_name": "gemma2-9b"}, "no layers with a sliding window"),
        (TPU, RING | {"model_name": "deepseek3-671b", "packing": True}, "with a ring of latent attention is refused"),
        # layers/attention_op.py and pull request 1133: context on GPU is Transformer Engine's
        (GPU, {"attention": "cudnn_flash_jax"}, "jax's cuDNN call refuses a split one"),
        (GPU, {"attention": None}, "attention: autoselected on GPU takes whole sequences in their order"),
        (GPU, {"model_name": "gemma2-9b"}, "a window of 4096 tokens, which over context on GPU runs only as a balanced ring"),
        (GPU, {"model_name": "gpt-oss-20b"}, "Transformer Engine has no attention sinks over context"),
        (GPU, {**WHOLE, "model_name": "gpt-oss-20b", "attention": "flash"}, "run only with cudnn_flash_te or dot_product"),
        # utils/max_utils.py: how a balanced batch is reordered; configs/types.py
        (TPU, {"context_parallel_reorder_strategy": "striped"}, "is Transformer Engine's, only on GPU"),
        (TPU, SPLASH | {"use_jax_splash": True}, "at most one may be; set use_jax_splash: false"),
        (TPU, {"ring_scan_unroll": 16}, "belongs to a ring, not to all_gather's"),
        (TPU, {**WHOLE, "quantization": "fp8", "gradient_accumulation_steps": 4}, "gradient_accumulation_steps=4 is refused"),
        (TPU, {"hardware": "gpu"}, "hardware: gpu, and tpu-v5p-32 is tpu; set hardware: tpu"),
        # configs/types.py: tiles of the vocabulary
        (GPU, {"num_vocab_tiling": 3}, "num_vocab_tiling=3 must divide per_device_batch_size x max_target_length = 131072"),
    ],
)
def test_maxtext_refuses(maxtext, machine, keys, says):
    assert any(says in text for text in maxtext(machine, **keys)["refusals"])


@pytest.mark.parametrize(
    ("machine", "keys"),
    [
        (GPU, {}),
        (GPU, {"packing": True, "context_parallel_strategy": "ring"}),
        (GPU, {"hardware": "gpu_multiprocess"}),
        (GPU, {**WHOLE, "packing": True, "attention": "cudnn_flash_jax", "dataset_type": "synthetic"}),
        (TPU, {"packing": True}),
        # utils/train_utils.py: packing is ignored for synthetic data, with a warning
        (TPU, {"packing": True, "dataset_type": "synthetic"}),
        (TPU, ULYSSES),
        (TPU, ULYSSES | {"packing": True}),
        (TPU, RING | {"packing": True, "ring_scan_unroll": 16, "dq_reduction_steps": 3}),
        (TPU, {"attention": "dot_product", "dropout_rate": 0.1}),
        (TPU, {"quantization": "fp8"}),
        (GPU, {"packing": True, **WHOLE}),
        (GPU, {"num_vocab_tiling": 4}),
    ],
)
def test_maxtext_runs_the_nearest_neighbours(maxtext, machine, keys):
    assert maxtext(machine, **keys)["refusals"] == []


def test_a_mesh_that_cuts_the_torus_needs_leave(maxtext):
    """jax, ``create_device_mesh``; pytorch/xla#8381: 64 x 4 on the 16 x 16 of a Trillium pod."""
    pod = ("--hw", "tpu-v6e-256")
    keys = {"ici_fsdp_parallelism": 64, "max_target_length": 8192}
    [said] = maxtext(pod, **keys)["refusals"]
    assert "ici_context_parallelism=4 is not a product of whole dims of tpu-v6e-256's 16x16 torus" in said
    assert "set allow_split_physical_axes: true" in said
    assert maxtext(pod, **keys, allow_split_physical_axes=True)["refusals"] == []
    assert maxtext(pod, **keys | {"ici_fsdp_parallelism": 16, "ici_context_parallelism": 16})["refusals"] == []


def test_an_odd_context_cannot_be_balanced(lcplan):
    """utils/max_utils.py, ``reorder_sequence``: chunks are dealt in pairs."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in (MAXTEXT | {"ici_context_parallelism": 3}).items()]
    Path("run.yml").write_text("\n".join(lines))
    answer = lcplan("estimate", "--from-maxtext", "run.yml", "--hw", "tpu-v5p-32", "--devices", "12")
    assert answer.code == 2
    assert "context=3 must be even and 2 x context = 6 divide max_target_length=131072" in answer.err


def test_unrolled_layers_are_told(maxtext):
    """openxla/xla#45753: 290 GB of temporaries with scan_layers=false and the latency-hiding scheduler, 62 GB scanned."""
    assert any("scan_layers=false" in note and "290 GB" in note for note in maxtext(GPU, scan_layers=False)["notes"])
    assert not any("scan_layers" in note for note in maxtext(GPU)["notes"])


def test_megatrons_dense_mask_is_counted(megatron):
    """NVIDIA/Megatron-LM: at 131072 tokens the data loader's mask of seq x seq bytes is 17.2 GB, whatever context splits."""
    found = megatron("--seq-length 131072")
    [mask] = [one for one in found["differences"] if one["name"] == "attention-mask"]
    assert mask["extra_bytes"] == 131072**2
    without = megatron("--seq-length 131072 --no-create-attention-mask-in-dataloader")
    assert "attention-mask" not in [one["name"] for one in without["differences"]]
    assert found["memory_bytes"] - without["memory_bytes"] == 131072**2


def test_stages_that_do_not_divide_the_layers_are_told(megatron):
    """NVIDIA/Megatron-LM: 30 layers over 4 stages trained 28 of them without a word."""
    said = megatron("--seq-length 8192 --pipeline-model-parallel-size 5", code=2)
    assert "pipeline-model-parallel-size=5 does not divide --num-layers 32" in said
    assert "train 30 layers" in said
    assert "lcplan has no such axis yet" in megatron("--seq-length 8192 --pipeline-model-parallel-size 4", code=2)


def test_rows_of_products_in_eight_bits(megatron):
    """NVIDIA/NeMo: fp8 with context parallelism needs local tokens that are a multiple of 16."""
    odd = megatron("--seq-length 4000 --fp8-format hybrid")
    assert any("multiple of 16 tokens" in text and "has 1000" in text for text in odd["refusals"])
    assert any("lcplan prices bf16" in note for note in odd["notes"])
    assert megatron("--seq-length 4096 --fp8-format hybrid")["refusals"] == []
    assert megatron("--seq-length 4000")["refusals"] == []


ACCELERATE = """
num_processes: 8
mixed_precision: bf16
fsdp_config: {fsdp_version: 2}
parallelism_config: {dp_shard_size: 2, cp_size: 4, cp_comm_strategy: allgather}
"""


def test_a_window_that_accelerate_drops_is_told(lcplan):
    """huggingface/accelerate: context parallelism drops windows (Mistral, Gemma) and trains another model without a word."""
    Path("a.yaml").write_text(ACCELERATE)
    run = ("estimate", "--from-accelerate", "a.yaml", "--seq", "32k", "--hw", "dgx-h100", "--global-batch", "8")
    mistral = lcplan(*run, "--model", "mistral-7b-v0.1")
    assert mistral.code == 2  # lcplan has no balanced gather of a window in every layer either
    assert "rule window-balance" in mistral.err
    assert "the window of 4096 tokens of mistral-7b-v0.1 is dropped unsaid" in mistral.err
    gemma = lcplan(*run, "--model", "gemma-3-1b", "--format", "json")
    assert any("is dropped unsaid" in text for text in gemma.json["imported"]["refusals"])
    assert lcplan(*run, "--model", "llama3-8b", "--format", "json").json["imported"]["refusals"] == []


def test_a_model_that_lcplan_does_not_write_for_the_trainer_is_priced_all_the_same(lcplan):
    Path("a.yaml").write_text(ACCELERATE)
    run = ("estimate", "--from-accelerate", "a.yaml", "--seq", "32k", "--hw", "dgx-h100", "--global-batch", "8")
    answer = lcplan(*run, "--model", "qwen3-30b-a3b")
    assert answer.code == 0
    change = lcplan(*run, "--model", "qwen3-30b-a3b", "--format", "json").json["imported"]["would_change"]
    assert change["best"]["need_bytes"] > 0
    assert change["why_none"] == []  # a change of the file needs no export of the model


def test_torchtitans_divisor_holds_without_context_too(lcplan):
    """pytorch/torchtitan, parallel_dims.py: seq_len_divisor is tensor x 2 x context, of every mesh."""
    text = (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = %d\n[parallelism]\n'
        "data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n"
    )
    Path("a.toml").write_text(text % 8194)
    said = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--loss-chunk-tokens", "8194", "--format", "json")
    assert any("2 x context x tensor = 4 must divide seq_len=8194" in reason for reason in said.json["imported"]["refusals"])
    Path("a.toml").write_text(text % 8196)
    said = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--loss-chunk-tokens", "8196", "--format", "json")
    assert said.json["imported"]["refusals"] == []


def test_later_torchtitans_strategy_is_read(lcplan):
    """torchtitan after 0.3.0 has ``context_parallel_strategy`` kv_allgather or ulysses."""
    Path("a.toml").write_text(
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 131072\n'
        '[parallelism]\ndata_parallel_shard_degree = 2\ncontext_parallel_degree = 8\ncontext_parallel_strategy = "ulysses"\n'
    )
    answer = lcplan("estimate", "--from-torchtitan", "a.toml", *GPU, "--format", "json")
    assert answer.json["candidate"]["strategy"]["scheme"] == "ulysses"


def test_a_slice_is_taken_whole(lcplan):
    """MaxText fills -1 from the devices it finds, and those of a slice named by its accelerator type are known."""
    keys = MAXTEXT | {"ici_fsdp_parallelism": -1}
    Path("run.yml").write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items()))
    run = ("estimate", "--from-maxtext", "run.yml", "--format", "json")
    one = lcplan(*run, "--hw", "tpu-v5p-32").json["candidate"]["strategy"]["mesh"]
    two = lcplan(*run, "--hw", "tpu-v5p-32x2").json["candidate"]["strategy"]["mesh"]
    assert (one["data"], one["fsdp"], one["context"]) == (1, 4, 4)
    assert (two["data"], two["fsdp"], two["context"]) == (2, 4, 4)  # dcn_data_parallelism is -1
    assert "give --devices" in lcplan(*run, "--hw", "dgx-h100x2").err
    fixed = MAXTEXT | {"ici_fsdp_parallelism": 2}
    Path("run.yml").write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in fixed.items()))
    said = lcplan(*run, "--hw", "tpu-v5p-32")
    assert said.code == 2
    assert "its ici axes multiply to 8, which does not make 16 devices a slice" in said.err


def test_a_command_line_is_enough(lcplan):
    """AI-Hypercomputer/maxtext, configs/tpu/v5p/32b.sh: the model is base.yml's, 32 times; seq and batch from either side."""
    Path("32b.sh").write_text(
        "python3 -m train base.yml steps=15 per_device_batch_size=6 remat_policy=minimal global_parameter_scale=32 \\\n"
        "  ici_fsdp_parallelism=-1 ici_tensor_parallelism=4 dataset_type=synthetic attention='flash'\n"
    )
    run = ("estimate", "--from-maxtext", "32b.sh", "--hw", "v5p-128", "--format", "json")
    answer = lcplan(*run).json
    assert answer["request"]["workload"]["seq_len"] == 2048
    assert answer["request"]["workload"]["global_batch"] == 6 * 64
    assert "not given, so the default of maxtext: max_target_length: 2048" in answer["imported"]["notes"]
    assert answer["imported"]["fits"] is True
    longer = lcplan(*run, "--seq", "4k").json
    assert longer["request"]["workload"]["seq_len"] == 4096
    assert not any("max_target_length" in note for note in longer["imported"]["notes"])


def test_no_word_of_a_model_is_base_ymls(lcplan):
    Path("run.yml").write_text("ici_fsdp_parallelism: 4\n")
    run = ("estimate", "--from-maxtext", "run.yml", "--hw", "v5p-8", "--format", "json")
    answer = lcplan(*run).json
    assert answer["request"]["model"]["parameters"] == pytest.approx(1.10e9, rel=0.01)
    assert any("model_name: default" in note for note in answer["imported"]["notes"])
    assert lcplan(*run, "--model", "llama3-8b").json["request"]["model"]["name"] == "llama3-8b"
    Path("run.yml").write_text("ici_fsdp_parallelism: 4\nmodel_name: gemma3-27b\n")
    said = lcplan(*run)
    assert said.code == 2
    assert "model_name gemma3-27b is not in the catalogue" in said.err
