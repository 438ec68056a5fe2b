"""The role of each of Axolotl's keys."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words
from planner.trainers.huggingface.argument_roles import OFF

ROLES = Roles(
    read=words(
        """
        activation_offloading adapter base_model bf16 bfloat16 chunked_cross_entropy context_parallel_size cut_cross_entropy
        deepspeed dp_replicate_size dp_shard_size fsdp fsdp_config fsdp_version gradient_accumulation_steps
        gradient_checkpointing liger_fused_linear_cross_entropy load_in_4bit load_in_8bit micro_batch_size optimizer
        ring_attn_func rl sample_packing sequence_len sequence_parallel_degree tensor_parallel_size unfrozen_parameters
        """
    ),
    harmless={
        "learning rate, weight decay and the length of the run": (
            "adam_* cosine_* embedding_lr* grokfast_* jagged_* learning_rate lr_* max_grad_norm max_steps num_epochs "
            "optim_args "
            "optim_target_modules warmup_* weight_decay seed neftune_noise_alpha noisy_embedding_alpha"
        ),
        "options of optimizers, which optimizer names": "dion_* qgalore_* torchdistx_path",
        "examples and templates": (
            "added_tokens_overrides batch_size chat_template* curriculum_sampling dataloader_* dataset_* datasets "
            "default_system_message eot_tokens excess_length_strategy group_by_length image_* is_preprocess "
            "max_packed_sequence_len multipack_real_batches num_dataset_shards_to_save pad_to_* preprocess_iterable "
            "pretrain_multipack_buffer_size pretraining_dataset processor_* push_dataset_to_hub remove_unused_columns "
            "role_boundaries sample_packing_* shuffle_* skip_prepare_dataset special_tokens streaming* test_datasets "
            "tokenizer_* "
            "tokens total_* train_on_inputs val_set_size use_pose pose_* pretraining_sample_concatenation max_prompt_len "
            "min_sample_len"
        ),
        "logging and evaluation": (
            "bench_* comet_* do_* early_stopping_patience eval_* evals_per_epoch evaluation_strategy gradio_* "
            "greater_is_better "
            "hf_mlflow_log_artifacts include_* lm_eval_* load_best_model_at_end logging_steps loss_watchdog_* "
            "metric_for_best_model mlflow_* otel_* profiler_* swanlab_* trackio_* use_comet use_mlflow use_otel_metrics "
            "use_swanlab use_tensorboard use_trackio use_wandb wandb_* generate_samples generation_* num_generation_samples"
        ),
        "checkpoints and files": (
            "auto_resume_from_checkpoints axolotl_config_path dynamic_checkpoint hub_* hf_use_auth_token merge_lora "
            "merge_method "
            "output_dir resume_from_checkpoint save_* saves_per_epoch fsdp_final_state_dict_type"
        ),
        "loading": (
            "base_model_config cls_model_config experimental_skip_move_to_device low_cpu_mem_usage mean_resizing_embeddings "
            "overrides_of_model_* reinit_weights revision_of_model trust_remote_code type_of_model max_memory "
            "fix_untrained_tokens is_*_derived_model device device_map strict plugins trainer_cls"
        ),
        "how processes start": (
            "accelerator_config ddp ddp_* local_rank ray_* resources_per_worker use_ray world_size future_timeout"
        ),
        "of adapters, which adapter names": (
            "bnb_config_kwargs gptq lisa_* lora_* loraplus_* mora mora_type peft peft_* qlora_sharded_model_loading relora "
            "relora_* use_mora spectrum_* nvfp4_merge_*"
        ),
        "of preference, reinforcement and distillation, which rl or a plugin names": (
            "center_rewards_coefficient cpo_alpha dpo_* ebft kd_* kto_* nemo_gym_* orpo_alpha precompute_ref_log_probs "
            "reward_funcs rl_beta rpo_alpha simpo_gamma trl vllm hatchery api_key base_url backend project_id recipe pipeline"
        ),
        "of diffusion models, which diffusion names": (
            "eps importance_weighting mask_token_* max_mask_ratio min_mask_ratio noise_schedule num_diffusion_steps "
            "num_samples "
            "sample_temperature max_sample_tokens"
        ),
        "another loss on the same logits": "eaft_* use_eaft loss_fn loss_fn_config num_labels",
        "the same products by fused kernels": (
            "liger_cross_entropy liger_glu_activation liger_layer_norm liger_rms_norm* liger_rope liger_swiglu "
            "liger_use_token_scaling flash_attn_cross_entropy flash_attn_fuse_mlp flash_attn_rms_norm fused_attn_kernel "
            "use_kernels "
            "chunked_cross_entropy_num_chunks"
        ),
        "how fused attention is cut": "heads_k_stride flex_attn_compile_kwargs flash_attn_d512 pretrain_multipack_attn",
        "attention inside the documents of a batch, which --document-len prices": "batch_flattening",
        "frees unused blocks of the pool": "gc_* torch_empty_cache_steps",
        "a limit that other programs keep": "gpu_memory_limit",
        "a few rows of the vocabulary": "resize_token_embeddings_to_32x shrink_embeddings",
        "the way in which checkpointing runs": "gradient_checkpointing_kwargs",
        "precision of products in fp32": "tf32",
        "of kernels and plugins that another key names": (
            "dsv4_* expert_parallel_backend expert_parallel_fallback_on_unsupported expert_parallel_num_* "
            "expert_parallel_token_capacity expert_backend experts_implementation moe_* llama4_linearized_experts train_attn "
            "train_mlp train_unembed tiled_mlp_* torch_compile_* nonexpert_quantization gemma4_* scaling_softmax_*"
        ),
    },
    noted={
        "attn_implementation": Noted(
            "attention is priced as fused", unless=("flash_attention_2", "flash_attention_3", "sdpa", "flex_attention", *OFF)
        ),
        "auto_find_batch_size": Noted("a batch that shrinks until it fits is priced as given", unless=OFF),
        "deepcompile": Noted("priced as torch runs operations one by one", unless=OFF),
        "dense_mixer": Noted("every expert on every token is priced as the chosen ones", unless=OFF),
        "diffusion": Noted("priced as causal training", unless=OFF),
        "eager_attention": Noted("attention is priced as fused, and this keeps scores in memory", unless=OFF),
        "embeddings_skip_upcast": Noted("embeddings are priced with fp32 masters", unless=OFF),
        "expert_parallel_size": Noted("expert ranks are not priced: every rank is priced with all experts", unless=("1", *OFF)),
        "flash_attention": Noted("attention is priced as fused", unless=("True", *OFF)),
        "flash_optimum": Noted("attention is priced as fused", unless=OFF),
        "flex_attention": Noted("attention is priced as fused", unless=("True", *OFF)),
        "float16": Noted("priced as bf16, which takes as many bytes", unless=OFF),
        "float32": Noted("priced in bf16: fp32 takes more", unless=OFF),
        "fp16": Noted("priced as bf16, which takes as many bytes", unless=OFF),
        "fp32_norm_classes": Noted("norms are priced as Transformers has them", unless=OFF),
        "fp32_norms": Noted("norms are priced as Transformers has them", unless=OFF),
        "fp8": Noted("lcplan prices bf16", unless=OFF),
        "fp8_enable_fsdp_float8_all_gather": Noted("weights are priced as gathered in bf16", unless=OFF),
        "freeze_mm_modules": Noted("vision parts are not priced", unless=("True", *OFF)),
        "large_head_attention": Noted("attention is priced as fused", unless=OFF),
        "layer_offloading": Noted("weights are priced on the device", unless=OFF),
        "llmcompressor": Noted("weights are priced in bf16 and dense", unless=OFF),
        "model_quantization_config": Noted("weights are priced in bf16", unless=OFF),
        "model_quantization_config_kwargs": Noted("weights are priced in bf16", unless=OFF),
        "process_reward_model": Noted("priced as a language model's head", unless=OFF),
        "qat": Noted("weights are priced in bf16", unless=OFF),
        "quantization": Noted("weights are priced in bf16", unless=OFF),
        "quantize_moe_experts": Noted("weights are priced in bf16", unless=OFF),
        "reward_model": Noted("priced as a language model's head", unless=OFF),
        "rope_scaling": Noted("memory and time are those of --model's RoPE", unless=OFF),
        "s2_attention": Noted("attention is priced as dense", unless=OFF),
        "sage_attention": Noted("attention is priced in bf16", unless=OFF),
        "scaling_softmax": Noted("attention is priced without it", unless=OFF),
        "sdp_attention": Noted("attention is priced as fused", unless=("True", *OFF)),
        "sdpa_varlen": Noted("attention is priced as fused", unless=("True", *OFF)),
        "selective_checkpointing": Noted("priced as full checkpointing, which keeps less", unless=OFF),
        "tiled_mlp": Noted("the feed-forward is priced whole, which takes more", unless=OFF),
        "torch_compile": Noted("priced as torch runs operations one by one", unless=OFF),
        "use_dsv4_kernels": Noted("kernels are priced as Transformers'", unless=OFF),
        "use_glm_dsa_kernels": Noted("kernels are priced as Transformers'", unless=OFF),
        "use_onebitllms": Noted("weights are priced in bf16", unless=OFF),
        "use_scattermoe": Noted("kernels are priced as Transformers'", unless=OFF),
        "use_sonicmoe": Noted("kernels are priced as Transformers'", unless=OFF),
        "xformers_attention": Noted("attention is priced as fused", unless=("True", *OFF)),
    },
)
