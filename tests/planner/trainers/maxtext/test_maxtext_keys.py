"""Keys of MaxText that change memory or the program: priced, refused, or answered with a note."""

import json

import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.trainers import Job
from planner.trainers.maxtext.read import read

RUN = {
    "model_name": "llama3.1-8b",
    "max_target_length": 32768,
    "per_device_batch_size": 1,
    "ici_fsdp_parallelism": 32,
    "remat_policy": "full",
    "attention": "flash",
    "dataset_type": "synthetic",
    "packing": False,
}
TOKENS, WIDTH, VOCAB = 32768, 4096, 128256


@pytest.fixture
def says(tmp_path):
    """The configuration with further keys, read for 32 devices of v5p."""

    def _says(**keys):
        file = tmp_path / "run.json"
        file.write_text(json.dumps(RUN | keys))
        return read(str(file), 32)

    return _says


def differences(imported):
    """The differences of the imported job by name."""
    strategy = Strategy.model_validate({"mesh": {"fsdp": 32}, "remat": "full", "backend": "ici", "loss_chunk_tokens": TOKENS})
    workload = Workload(seq_len=TOKENS, global_batch=32)
    job = Job(catalog.model("llama3.1-8b"), catalog.hardware("tpu-v5p-64"), workload, strategy)
    return {one.name: one for one in imported.more(job)}


@pytest.mark.parametrize("depth", [1, 2])
def test_multi_token_prediction(says, depth):
    """218.1e6 parameters of a layer and 33.6e6 of a projection in 16 bytes over 32 devices; logits; tensors of a layer."""
    found = differences(says(mtp_num_layers=depth))["multi-token-prediction"]
    state, logits = 16 * (218.1e6 + 2 * WIDTH**2) / 32, 2.7 * TOKENS * VOCAB
    kept = found.extra_bytes - depth * (state + logits)
    tensors = TOKENS * 2 * (2 * 14336 + 2 * WIDTH + 6144)  # gate and up, attention's result twice, queries, keys and values
    assert kept == pytest.approx(depth * tensors, rel=0.15)
    assert "multi-token-prediction" not in differences(says())


def test_a_depth_that_is_no_number_is_refused(says):
    with pytest.raises(BadInputError, match="mtp_num_layers: 'two' is not a whole number"):
        says(mtp_num_layers="two")


def test_a_head_in_fp32(says):
    """2 more bytes of the head, 1 of the logits' cotangent on TPU, and hidden states in fp32."""
    found = differences(says(logits_dot_in_fp32=True))["head-in-fp32"]
    assert found.extra_bytes == 4 * TOKENS * WIDTH + 2 * VOCAB * WIDTH + VOCAB * TOKENS


@pytest.mark.parametrize(
    ("keys", "per_parameter"),
    [
        ({"optimizer_memory_host_offload": True}, 8),
        ({"parameter_memory_host_offload": True, "optimizer_memory_host_offload": True}, 12),
        ({"optimizer_memory_host_offload": True, "weight_dtype": "bfloat16"}, 4),
    ],
)
def test_state_on_the_host_takes_the_hosts_memory(says, keys, per_parameter):
    found = differences(says(**keys))["state"]
    assert found.host_bytes == pytest.approx(per_parameter * 8.03e9 / 32, rel=1e-3)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"use_dpo": True}, "use_dpo: lcplan prices plain train steps"),
        ({"use_grpo": True}, "use_grpo: lcplan prices plain train steps, and here an iteration samples too"),
        ({"lora": {"enable_lora": True, "lora_rank": 8}}, "lora.enable_lora: lcplan prices training of every parameter"),
        ({"training_objective": "block_diffusion"}, "training_objective: block_diffusion: lcplan prices causal attention"),
        ({"attention_type": "compressed"}, "attention_type: compressed: lcplan prices causal attention"),
    ],
)
def test_other_programs_are_refused(says, keys, reason):
    with pytest.raises(BadInputError, match=reason):
        says(**keys)


@pytest.mark.parametrize("module", ["dpo.train_dpo", "rl.train_rl", "distillation.train_distill"])
def test_programs_after_pre_training_are_refused(tmp_path, module):
    file = tmp_path / "run.sh"
    words = " ".join(f"{key}={str(value).lower()}" for key, value in RUN.items())
    file.write_text(f"python3 -m maxtext.trainers.post_train.{module} base.yml {words}\n")
    with pytest.raises(BadInputError, match="lcplan prices plain train steps"):
        read(str(file), 32)


def test_adapters_of_a_command_line_are_refused(tmp_path):
    file = tmp_path / "run.sh"
    words = " ".join(f"{key}={str(value).lower()}" for key, value in RUN.items())
    module = "maxtext.trainers.post_train.sft.train_sft"
    file.write_text(f"python3 -m {module} base.yml {words} lora.enable_lora=True lora.lora_rank=8\n")
    with pytest.raises(BadInputError, match=r"lora\.enable_lora: lcplan prices training of every parameter"):
        read(str(file), 32)


def test_latent_attention_is_not_guessed(says):
    found = says(model_name="default", attention_type="mla")
    assert "model" not in {**found.options, **found.defaults}
    assert any("give --model" in note for note in found.notes)
    assert says(model_name="deepseek3-671b", attention_type="mla").options["model"].latent is not None


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ({"grad_dtype": "bfloat16"}, "grad_dtype bfloat16: gradients are priced in the weights' dtype"),
        ({"dropout_rate": 0.1}, "dropout_rate 0.1: masks of dropout are not priced"),
        ({"attention_type": "local_sliding"}, "attention_type local_sliding: the decoder blocks"),
        ({"quantization": "int8"}, "quantization=int8: lcplan prices bf16"),
    ],
)
def test_what_is_not_priced_has_a_note(says, keys, note):
    assert any(one.startswith(note) for one in says(**keys).notes)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"mhc_expansion_rate": 4}, "mhc_expansion_rate 4: one residual stream is priced"),
        ({"elastic_enabled": True}, "elastic_enabled True: the copy of the state in the host's memory is not priced"),
        ({"use_multimodal": True}, "use_multimodal True: the vision encoder is not priced"),
        ({"remat_policy": "custom", "mla_q": "device"}, "mla_q device: it is priced as recomputed"),
        ({"teacher_overrides": {"num_query_heads": 64}}, "teacher_overrides {'num_query_heads': 64}: the teacher"),
    ],
)
def test_what_takes_memory_without_a_price_has_no_verdict(says, keys, reason):
    assert [one.startswith(reason) for one in says(**keys).unpriced] == [True]
    assert says().unpriced == ()


def test_base_ymls_own_values_have_no_note(says):
    keys = {"mhc_expansion_rate": 1, "grad_dtype": "float32", "elastic_enabled": False, "attention_type": "global"}
    assert says(**keys, engram_layers=[], shared_experts=0, lora={"enable_lora": False}).notes == says().notes


@pytest.mark.parametrize(("hardware", "scores"), [("dgx-h100", 0), ("dgx-b200", 2 * 2 * 8192**2 * 16)])
def test_transformer_engine_falls_back_where_cudnn_has_no_kernel(tmp_path, hardware, scores):
    """Heads of 256 train on Hopper only (cuDNN frontend, support matrix)."""
    sizes = {"base_emb_dim": 4096, "base_num_query_heads": 16, "base_num_kv_heads": 4, "head_dim": 256}
    file = tmp_path / "run.json"
    keys = {"max_target_length": 8192, "per_device_batch_size": 1, "ici_fsdp_parallelism": 8, "attention": "cudnn_flash_te"}
    file.write_text(json.dumps(keys | sizes | {"decoder_block": "llama2", "hardware": "gpu", "packing": False}))
    imported = read(str(file), 8)
    strategy = Strategy.model_validate({"mesh": {"fsdp": 8}, "remat": "full", "loss_chunk_tokens": 8192})
    job = Job(imported.options["model"], catalog.hardware(hardware), Workload(seq_len=8192, global_batch=8), strategy)
    found = {one.name: one.extra_bytes for one in imported.more(job)}
    assert found.get("attention", 0) == scores
