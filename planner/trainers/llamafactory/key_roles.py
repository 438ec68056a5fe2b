"""The role of each of LLaMA-Factory's keys."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words
from planner.trainers.huggingface import argument_roles
from planner.trainers.huggingface.argument_roles import OFF

ADAPTERS = "of adapters and frozen layers, which finetuning_type names"

ROLES = Roles(
    read=argument_roles.READ
    | words(
        """
        cutoff_len disable_gradient_checkpointing enable_liger_kernel finetuning_type model_name_or_path packing pure_bf16
        quantization_bit stage use_hyper_parallel use_kt use_mca use_megatron_bridge use_unsloth
        """
    ),
    harmless=argument_roles.HARMLESS
    | {
        "examples and templates": (
            "template dataset dataset_dir media_dir train_on_prompt mask_history streaming buffer_size mix_strategy "
            "interleave_probs overwrite_cache preprocessing_* max_samples ignore_pad_token_for_loss val_size tool_format "
            "default_system enable_thinking preserve_thinking tokenized_path data_shared_file_system disable_shuffling image_* "
            "video_* crop_to_patches use_audio_in_video audio_sampling_rate"
        ),
        "loading": (
            "overwrite_output_dir cache_dir use_fast_tokenizer split_special_tokens add_tokens add_special_tokens "
            "new_special_tokens_config "
            "init_special_tokens model_revision low_cpu_mem_usage train_from_scratch hf_hub_token ms_hub_token om_hub_token "
            "print_param_status trust_remote_code device_map compute_dtype model_max_length"
        ),
        "inference, export and evaluation": (
            "infer_* offload_folder use_kv_cache export_* vllm_* sglang_* do_sample temperature top_p top_k num_beams "
            "max_length "
            "max_new_tokens repetition_penalty length_penalty skip_special_tokens task task_dir batch_size lang n_shot "
            "download_mode compute_accuracy"
        ),
        "logging": (
            "plot_loss use_swanlab swanlab_* include_effective_tokens_per_second early_stopping_steps enable_torch_profiler "
            "profiler_* profile_modules"
        ),
        "how processes of Ray start": "ray_* master_addr master_port",
        ADAPTERS: (
            "lora_* additional_target loraplus_* use_rslora use_dora pissa_* create_new_adapter oft_* module_dropout "
            "adapter_name_or_path adapter_folder freeze_trainable_* freeze_extra_modules use_llama_pro"
        ),
        "of preference stages, which stage names": (
            "pref_* dpo_label_smoothing kto_* simpo_gamma ppo_* ref_model* reward_model* ld_alpha"
        ),
        "of a backend or quantization that another key names": (
            "quantization_method quantization_type double_quantization quantization_device_map kt_* _kt_* megatron_bridge_args "
            "hyper_parallel_args hyper_parallel_cp_size"
        ),
        "of an optimizer that another key names": "galore_* apollo_* badam_*",
        "another loss on the same logits": "use_dft_loss asft_alpha use_eaft_loss eaft_alpha",
        "attention inside the documents of a packed sequence, which --document-len prices": "neat_packing block_diag_attn",
        "a few rows of the vocabulary": "resize_vocab",
        "the same checkpoints by another call": "use_reentrant_gc",
        "the weight of a loss": "moe_aux_loss_coef",
    },
    noted=argument_roles.NOTED
    | {
        "flash_attn": Noted("attention is priced as fused", unless=("auto", "fa2", "fa3", "sdpa", "AttentionFunction.AUTO")),
        "fp8": Noted("lcplan prices bf16", unless=OFF),
        "fp8_backend": Noted("lcplan prices bf16", unless=("auto", *OFF)),
        "fp8_enable_fsdp_float8_all_gather": Noted("weights are priced as gathered in bf16", unless=OFF),
        "freeze_language_model": Noted("every parameter is priced as trained", unless=OFF),
        "freeze_multi_modal_projector": Noted("vision parts are not priced", unless=("True", "None")),
        "freeze_vision_tower": Noted("vision parts are not priced", unless=("True", "None")),
        "mixture_of_depths": Noted("every layer is priced for every token", unless=OFF),
        "rope_scaling": Noted("memory and time are those of --model's RoPE", unless=OFF),
        "shift_attn": Noted("attention is priced as dense", unless=OFF),
        "upcast_layernorm": Noted("weights of norms are priced in fp32 masters", unless=OFF),
        "upcast_lmhead_output": Noted("logits are priced in bf16 with one fp32 copy", unless=OFF),
        "use_adam_mini": Noted("lcplan prices AdamW with two fp32 moments", unless=OFF),
        "use_apollo": Noted("lcplan prices AdamW with two fp32 moments", unless=OFF),
        "use_asft_loss": Noted("a reference model is not priced", unless=OFF),
        "use_badam": Noted("lcplan prices AdamW with two fp32 moments", unless=OFF),
        "use_galore": Noted("lcplan prices AdamW with two fp32 moments", unless=OFF),
        "use_muon": Noted("lcplan prices AdamW with two fp32 moments", unless=OFF),
        "use_unsloth_gc": Noted("layer inputs on the host are priced on the device", unless=OFF),
        "use_v1_kernels": Noted("kernels are priced as Transformers'", unless=OFF),
    },
)
