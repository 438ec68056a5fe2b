"""The role of each of TRL's keys: of SFTConfig, ModelConfig, ScriptArguments, GRPOConfig and DPOConfig."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words
from planner.trainers.huggingface import argument_roles
from planner.trainers.huggingface.argument_roles import OFF

ROLES = Roles(
    read=argument_roles.READ
    | words(
        """
        accelerate_config activation_offloading beta dtype load_in_4bit load_in_8bit loss_type max_completion_length max_length
        model_name_or_path num_generations packing use_peft
        """
    ),
    harmless=argument_roles.HARMLESS
    | {
        "examples": (
            "dataset_* datasets path name data_dir data_files split columns fraction streaming test_split_size "
            "chat_template_path "
            "eos_token pad_token truncation_mode shuffle_dataset packing_strategy eval_packing completion_only_loss "
            "assistant_only_loss ignore_bias_buffers config"
        ),
        "loading": "model_init_kwargs model_revision trust_remote_code disable_dropout bnb_* use_bnb_nested_quant",
        "of adapters, which use_peft names": "lora_* use_rslora use_dora",
        "attention inside the documents of a batch, which --document-len prices": "padding_free pad_to_multiple_of",
        "of preference and reinforcement, which other keys name": (
            "vllm_* use_vllm temperature top_* min_p generation_* chat_template_kwargs repetition_penalty cache_implementation "
            "num_iterations epsilon* delta sapo_* vespo_* importance_sampling_level reward_weights multi_objective_aggregation "
            "scale_rewards mask_truncated_completions sync_ref_model ref_model_* use_adaptive_entropy entropy_* "
            "max_tool_calling_iterations off_policy_mask_threshold use_bias_correction_kl num_completions_to_print "
            "use_transformers_* transformers_* ds3_gather_for_generation steps_per_generation num_generations_eval "
            "precompute_ref_* loss_weights ld_alpha f_* label_smoothing use_weighting discopop_tau"
        ),
        "the weight of a loss": "router_aux_loss_coef",
    },
    noted=argument_roles.NOTED
    | {
        "attn_implementation": Noted(
            "attention is priced as fused", unless=("flash_attention_2", "flash_attention_3", "sdpa", "None", "")
        ),
        "cast_lm_head_to_fp32": Noted("logits are priced in bf16 with one fp32 copy", unless=OFF),
    },
)
