"""MaxText's RL: a configuration over its rl.yml where it can run the plan, refusals by name elsewhere."""

import pytest
import yaml

SEARCH = ["search", "--workload", "rl", "--model", "qwen3-1.7b", "--prompt", "256", "--generate", "1024", "--batch", "256"]
SEARCH += ["--stages", "modelled", "--survivors", "1", "--out", "run"]
WHOLE = ["--hw", "tpu-v4-32", "--devices", "16", "--parameters", "replicated,tensor-sharded", "--mesh", "fsdp=16"]
KL = ["--kl-coefficient", "0.04"]


def exported(lcplan, *options, to=("--to", "maxtext")):
    code, _, err = lcplan(*SEARCH, *options)
    assert code == 0, err
    return lcplan("export", "run", *to)


def test_the_configuration_has_the_plans_policy_sequences_and_meshes(lcplan, tmp_path):
    code, document, _ = exported(lcplan, *WHOLE, *KL, "--temperature", "0.8", "--microbatches", "2")
    assert code == 0
    keys = yaml.safe_load((tmp_path / "run" / "maxtext" / "maxtext_rl.yml").read_text())
    assert keys["base_config"] == "post_train/rl.yml"
    assert keys["batch_size"] * keys["rl"]["num_generations"] == 256
    assert keys["batch_size"] == 2 * keys["train_micro_batch_size"]
    assert keys["rl"]["grpo_beta"] == 0.04
    assert keys["rl"]["use_rollout_logps"]
    assert (keys["max_prefill_predict_length"], keys["max_target_length"]) == (256, 1280)
    assert keys["decode_sampling_temperature"] == 0.8
    assert keys["ici_fsdp_parallelism"] == 16
    rollout = document["as_planned"]["strategy"]["sampling"]["mesh"]
    assert (keys["rollout_data_parallelism"], keys["rollout_tensor_parallelism"]) == (rollout["data"], rollout["tensor"])
    assert {"sampler", "reference-model", "loss"} <= {difference["name"] for difference in document["differences"]}
    assert document["launch"]["command"].startswith("python3 -m maxtext.trainers.post_train.rl.train_rl maxtext_rl.yml")


def test_recomputed_log_probabilities_have_a_key(lcplan, tmp_path):
    forced = ("--to", "maxtext", "--force")  # MaxText's whole logits need more than a device has
    assert exported(lcplan, *WHOLE, *KL, "--old-log-probs", "recomputed", to=forced)[0] == 0
    keys = yaml.safe_load((tmp_path / "run" / "maxtext" / "maxtext_rl.yml").read_text())
    assert not keys["rl"]["use_rollout_logps"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (WHOLE, "always keeps a reference model in memory; plan with --kl-coefficient above 0"),
        (["--hw", "dgx-h100", "--devices", "8", *KL], "its RL samples with vLLM on TPU; dgx-h100 is gpu; use --to jax"),
        ([*WHOLE[:4], "--parameters", "gathered-once", *KL], "keeps whole matrices, not parameters=gathered-once"),
        ([*WHOLE, *KL, "--kv-dtype", "fp32"], "knows no key for a cache in fp32; plan with --kv-dtype bf16"),
    ],
)
def test_other_plans_are_refused_by_name(lcplan, options, words):
    code, document, err = exported(lcplan, *options)
    assert (code, document) == (2, None)
    assert "maxtext: " in err
    assert words in err
