"""Reinforcement learning: one YAML over MaxText's rl.yml, for its GRPO trainer (Tunix), which samples with vLLM on TPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import RlWorkload
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, run_name
from planner.trainers.common.jax_environment import jax_environment
from planner.trainers.maxtext.compile import topology_words
from planner.trainers.maxtext.configuration.pre_train import (
    NUMBERS,
    attention_keys,
    mesh_keys,
    model_keys,
    remat_keys,
    yaml_text,
)

RL_FILE = "maxtext_rl.yml"
LARGEST_GROUP = 8
"""Most samples of one prompt, as TRL's GRPOConfig has them (num_generations)."""
CLIP = 0.2
"""Clip of the ratio, as lcplan's policy update has it (PPO, arXiv:1707.06347, section 6.1)."""


def rl_export(translation: Translation, plan: Plan) -> Written:
    """The configuration of ``maxtext.trainers.post_train.rl.train_rl`` and its launch line.

    Raises
    ------
    BadInputError
        MaxText's RL cannot run the plan; every reason, with an alternative.
    """
    job, work = translation.job, translation.job.iteration
    assert work is not None, "a plan of an iteration"
    if problems := [f"maxtext: {problem}" for problem in _refusals(job, work)]:
        raise BadInputError(problems)
    sections = {
        "": {"base_config": "post_train/rl.yml", "run_name": run_name(translation), "hardware": "tpu"},
        "Model": model_keys(job.model),
        "Sequences: batch_size counts prompts": _sequences(job, work),
        "Policy": _policy(job, work),
        "Devices: trainer and sampler share all of them": _devices(job),
        "Mesh of the trainer": mesh_keys(job),
        "Attention": attention_keys(job),
        "Rematerialisation": _remat(job),
        "Numbers": NUMBERS,
        "Yours to replace: checkpoint, data, rewards, the sampler's share of memory": {
            "load_parameters_path": "",
            "dataset_name": "openai/gsm8k",
            "reward_functions_path": "",
            "num_batches": 100,
            "hbm_utilization_vllm": 0.3,
        },
    }
    command = ("python3", "-m", "maxtext.trainers.post_train.rl.train_rl", RL_FILE)
    words = ("tokenizer_path=${TOKENIZER}", "base_output_directory=${OUTPUT:-output}")
    notes = ("Set TOKENIZER to the Hugging Face name or folder of the tokenizer; MaxText needs tunix and vLLM for TPU.",)
    launch = Launch((*command, *words), jax_environment(translation, plan), notes=notes)
    check = {"rl": True, "overrides": [*topology_words(job), "tokenizer_path=none"]}
    return Written({RL_FILE: yaml_text(translation, sections)}, launch, check=check, main_file=RL_FILE)


def _refusals(job: Job, work: RlWorkload) -> Iterator[str]:
    """Why MaxText's RL cannot run the plan."""
    sampling, strategy = job.strategy.sampling, job.strategy
    assert sampling is not None, "a strategy of an iteration"
    if job.hardware.kind != "tpu":
        yield f"its RL samples with vLLM on TPU; {job.hardware.name} is {job.hardware.kind}; use --to jax"
    elif strategy.devices > job.hardware.domain_size:
        yield "on several slices its RL gives trainer and sampler slices of their own; plan for one slice, or use --to jax"
    if sampling.parameters.startswith("gathered"):
        yield (
            f"its sampler keeps whole matrices, not parameters={sampling.parameters};"
            " plan with --parameters replicated,tensor-sharded"
        )
    if job.model.experts is not None:
        yield f"lcplan exports no RL of a mixture of experts ({job.model.name}); use --to jax"
    if strategy.mesh.context > 1:
        yield f"lcplan knows no RL of MaxText with context={strategy.mesh.context}; plan with --mesh context=1"
    if not work.kl_coefficient:
        yield "its RL always keeps a reference model in memory; plan with --kl-coefficient above 0, so that it is counted"
    if work.kv_dtype != "bf16":
        yield f"lcplan knows no key for a cache in {work.kv_dtype}; plan with --kv-dtype bf16"


def _group(job: Job, work: RlWorkload) -> int:
    """Samples of one prompt: the largest number up to 8 of which a microbatch has whole groups."""
    sequences = work.batch // job.strategy.microbatches
    return max(size for size in range(1, LARGEST_GROUP + 1) if sequences % size == 0)


def _sequences(job: Job, work: RlWorkload) -> dict[str, Any]:
    prompts = work.batch // _group(job, work)
    return {
        "max_prefill_predict_length": work.prompt,
        "max_target_length": work.seq_len,
        "batch_size": prompts,
        "train_micro_batch_size": prompts // job.strategy.microbatches,
        "decode_sampling_temperature": work.temperature,
        "decode_sampling_top_k": -1,
        "decode_sampling_nucleus_p": 1.0,
        "num_vocab_tiling": 1,
    }


def _policy(job: Job, work: RlWorkload) -> dict[str, Any]:
    """Keys of GRPO; only its agentic learner takes the sampler's log-probabilities."""
    own = {
        "num_generations": _group(job, work),
        "num_iterations": 1,
        "grpo_beta": work.kl_coefficient,
        "grpo_epsilon": CLIP,
        "loss_algo": "grpo",
        "loss_agg_mode": "token-mean",
        "use_agentic_rollout": True,
        "use_rollout_logps": work.old_log_probs == "rollout",
    }
    return {"rl": own}


def _devices(job: Job) -> dict[str, Any]:
    sampling = job.strategy.sampling
    assert sampling is not None, "a strategy of an iteration"
    return {
        "trainer_devices_fraction": 1.0,
        "sampler_devices_fraction": 1.0,
        "rollout_data_parallelism": sampling.mesh.data,
        "rollout_tensor_parallelism": sampling.mesh.tensor,
        "rollout_expert_parallelism": 1,
    }


def _remat(job: Job) -> dict[str, Any]:
    """The policy; rl.yml offloads four tensors, which a custom policy must take back."""
    keys = remat_keys(job)
    taken_back = dict.fromkeys(("decoder_layer_input", "query_proj", "key_proj", "value_proj"), "remat")
    return {**taken_back, **keys} if keys["remat_policy"] == "custom" else keys
