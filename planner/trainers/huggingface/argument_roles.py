"""The role of each of Transformers' TrainingArguments, which the front ends take too."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, words

OFF = ("False", "None", "", "{}", "0", "no")

READ = words(
    """
    bf16 deepspeed fsdp fsdp_config gradient_accumulation_steps gradient_checkpointing per_device_train_batch_size
    use_liger_kernel
    """
)

HARMLESS = {
    "learning rate, weight decay and the length of the run": (
        "learning_rate lr_scheduler_* warmup_* weight_decay adam_* max_grad_norm max_steps num_train_epochs seed data_seed "
        "full_determinism label_smoothing_factor neftune_noise_alpha"
    ),
    "data and its loader": (
        "dataloader_* remove_unused_columns label_names length_column_name train_sampling_strategy ignore_data_skip "
        "average_tokens_across_devices include_num_input_tokens_seen"
    ),
    "logging and evaluation": (
        "logging_* log_* report_to run_name project trackio_* disable_tqdm debug skip_memory_metrics eval_* do_* "
        "per_device_eval_* "
        "batch_eval_metrics prediction_loss_only metric_for_best_model greater_is_better include_for_metrics bf16_full_eval "
        "fp16_full_eval load_best_model_at_end"
    ),
    "checkpoints and files": (
        "output_dir save_* hub_* push_to_hub resume_from_checkpoint restore_callback_states_from_checkpoint "
        "enable_jit_checkpoint"
    ),
    "how processes start": "local_rank ddp_backend ddp_timeout use_cpu accelerator_config",
    "bookkeeping of replicas": "ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph",
    "precision of products in fp32": "tf32",
    "which kernels are fused": "liger_kernel_config",
    "the way in which checkpointing runs": "gradient_checkpointing_kwargs activation_checkpointing_kwargs",
    "a cache of generation": "use_cache",
    "options of the optimizer": "optim_args optim_target_modules",
    "frees unused blocks of the pool": "torch_empty_cache_steps",
}

NOTED = {
    "activation_checkpointing": Noted("not read: give --remat", unless=OFF),
    "auto_find_batch_size": Noted("a batch that shrinks until it fits is priced as given", unless=OFF),
    "fp16": Noted("priced as bf16, which takes as many bytes", unless=OFF),
    "optim": Noted(
        "lcplan prices AdamW with two fp32 moments",
        unless=("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "None", ""),
    ),
    "parallelism_config": Noted("not read: give the launcher's YAML with --from-accelerate", unless=OFF),
    "torch_compile": Noted("priced as torch runs operations one by one", unless=OFF),
    "torch_compile_backend": Noted("priced as torch runs operations one by one", unless=OFF),
    "torch_compile_mode": Noted("priced as torch runs operations one by one", unless=OFF),
}
