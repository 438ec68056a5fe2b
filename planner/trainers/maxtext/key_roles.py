"""The role of each of MaxText's keys (``configs/types.py`` and ``configs/base.yml`` of 0.2.5)."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words
from planner.trainers.maxtext.read_mesh import AXES

READ = words(
    """
    allow_split_physical_axes attention attention_bias attention_sink attention_type base_config base_emb_dim base_mlp_dim
    base_moe_mlp_dim base_num_decoder_layers base_num_kv_heads base_num_query_heads capacity_factor compile_topology
    compile_topology_num_slices compile_xla_flags context context_parallel_load_balance context_parallel_reorder_strategy
    context_parallel_strategy dataset_type decoder_block decoder_layer_input dq_reduction_steps dtype
    enable_dropout float32_logits global_parameter_scale gradient_accumulation_steps hardware head_dim key_proj kv_proj
    logits_dot_in_fp32 logits_via_embedding lora max_segments_per_seq max_target_length mesh_axes mlp_activations mlpwi mlpwi_0
    mlpwi_1 moba model_name moe_mlpwi_0 moe_mlpwi_1 moe_x_sorted mtp_num_layers mu_dtype normalization_layer_epsilon
    num_experts num_experts_per_tok num_slices num_vocab_tiling opt_type optimizer_memory_host_offload
    original_max_position_embeddings out_proj packing parameter_memory_host_offload per_device_batch_size qkv_proj
    quantization query_proj ragged_buffer_factor remat_policy ring_scan_unroll rope_factor rope_linear_scaling_factor
    rope_max_timescale rope_type sa_block_kv sa_block_kv_compute sa_block_kv_dkv sa_block_kv_dkv_compute
    sa_block_kv_dq sa_block_q sa_block_q_dkv sa_block_q_dq sa_use_fused_bwd_kernel scan_layers sparse_matmul
    training_objective use_chunked_prefill use_dpo use_grpo use_jax_splash use_qk_clip use_qk_norm
    use_ragged_attention use_ring_of_experts use_tokamax_splash
    value_proj vocab_size weight_dtype
    """
) | frozenset(f"{part}_{axis}_parallelism" for part in ("ici", "dcn") for axis in AXES if axis != "tensor_transpose")

HARMLESS = {
    "set by MaxText itself from other keys": (
        "checkpoint_dir dcn_parallelism emb_dim global_batch_size_to_* ici_parallelism managed_mldiagnostics_dir metrics_dir "
        "micro_batch_size_to_* mlp_dim moe_mlp_dim num_decoder_layers num_diloco_replicas num_kv_heads num_query_heads "
        "num_target_devices rampup_end_step rampup_samples_per_increment_to_load tensorboard_dir tensors_on_device "
        "tensors_to_offload using_pipeline_parallelism"
    ),
    "learning rate, weight decay and the length of the run": (
        "adam_* adamw_mask gradient_clipping_threshold learning_rate* lr_schedule_type warmup_steps_fraction wsd_* steps "
        "num_epoch skip_step_* abort_on_* init_weights_seed dense_init_scale target_eval_loss z_loss_multiplier "
        "load_balance_loss_weight moe_use_megatron_seq_aux_loss mtp_loss_scaling_factor mtp_eval_target_module "
        "indexer_loss_scaling_factor use_tunix_gradient_accumulation"
    ),
    "of the optimizer Muon, whose state opt_type sets": "muon_*",
    "data and tokenizers": (
        "add_bos add_eos blend_* chat_template chat_template_path colocated_python_data_input data_shuffle_seed "
        "data_template_path dataset_name dataset_path default_prompt enable_data_shuffling eod_mask_loss eval_data_columns "
        "eval_dataset_name eval_image_column eval_split formatting_func_* generate_padding_batch_* grain_* hf_* "
        "max_corpus_chars mmap_* olmo_* packing_max_segments_per_sample reset_attention_mask reuse_example_batch "
        "system_prompt tokenize_* tokenizer_* train_data_columns train_image_column train_interleave_cycle_length "
        "train_shard_in_read train_split use_chat_template use_stream_chunking use_truncation expansion_factor_real_data "
        "sft_train_on_completion_only use_sft max_num_images_per_example"
    ),
    "checkpoints and restarts": (
        "async_checkpointing base_output_directory block_state_before_run_start checkpoint_* colocated_python_checkpointing "
        "convert_checkpoint_if_possible enable_autocheckpoint enable_checkpoint_cloud_logger enable_checkpointing "
        "enable_continuous_checkpointing enable_orbax_v1 enable_single_controller enable_single_replica_ckpt_restoring "
        "force_unroll load_checkpoint_only_once load_full_state_path load_parameters_path local_checkpoint_* "
        "lora_input_adapters_path max_num_checkpoints_to_keep mtc_data_parallelism "
        "multi_tier_checkpointing_* replicator_backup_interval_minutes "
        "save_* source_checkpoint_layout standalone_checkpointer_* use_replicator_service "
        "elastic_max_retries elastic_min_slice_count elastic_timeout_seconds elastic_backup_kind"
    ),
    "logging, profiling and checks": (
        "compiled_trainstep_file debug_* dump_* enable_gcp_* enable_goodput_recording enable_jax_profiler enable_mllog "
        "enable_pathways_goodput enable_tensorboard enable_tpu_profiling_options enable_wandb gcs_* goodput_* "
        "heartbeat_reporting_interval_in_seconds hide_profiler_step_metric jax_cache_dir jax_debug_log_modules "
        "jax_distributed_initialization_timeout jax_profiler_port log_* managed_mldiagnostics* max_checkify metrics_file "
        "mllog_file moe_log_max_load_ratio monitor_* profile_* profiler profiler_steps prometheus_port "
        "record_internal_nn_metrics report_* run_name skip_first_n_steps_for_profiler skip_jax_distributed_system "
        "step_deviation_interval_seconds tpu_num_* upload_all_profiler_results use_vertex_tensorboard vertex_tensorboard_* "
        "wandb_* write_estimator_result xprof_* sharding_tolerance constant_bound_config warmup_programs_in_init "
        "warm_input_reshard_before_run_start max_inflight_computations"
    ),
    "evaluation, which runs between training steps": "eval_*",
    "generation of text and reinforcement learning, which is not this program": (
        "ar_cache_axis_order async_scheduling autoregressive_decode_assert compute_axis_order decode_sampling_* "
        "enable_dp_attention enable_expert_parallel enable_llm_inference_pool enable_model_warmup enable_prefix_caching "
        "free_kv_cache_during_weight_sync fuse_expert_scales generate_slice hbm_utilization_vllm inference_* kv_cache_buffer "
        "kv_quant_* kv_tp_size load_from_prefill_dir max_num_batched_tokens max_num_seqs max_prefill_predict_length "
        "mla_naive_kvcache model_call_mode moe_mlp_tp_size multi_sampling prefill_* prefix_caching_* prefuse_moe_weights "
        "prompt quantize_kvcache reshape_q return_log_prob return_routed_experts rollout_* stack_prefill_result_cache "
        "stop_strings swap_space_vllm_gb use_raiden_ffi use_standalone_converter use_weight_converter vllm_* "
        "weight_sync_debug force_q_layout dpo use_mla_absorbed_mqa ragged_block_size subslice_shape sharding_strategy"
    ),
    "vision and audio, which a note on use_multimodal or use_audio names": (
        "*_for_vit *_for_audio audio_* image_* video_* vision_* dtype_mm freeze_* position_id_per_seconds use_audio_in_video"
    ),
    "the positions of tokens": (
        "beta_fast beta_slow compressed_rope_max_timescale global_rope_* local_rope_* max_position_embeddings mrope_section "
        "mscale nope_layer_interval partial_rotary_factor rope_attention_scaling rope_interleave rope_min_timescale "
        "rope_pairwise rope_truncate rope_use_scale temperature_tuning use_mrope"
    ),
    "where a norm, a scale or a cap is applied": (
        "attn_logits_soft_cap final_logits_soft_cap mlp_activations_limit normalize_embedding_logits qk_norm_with_scale "
        "use_post_attn_norm use_post_ffw_norm use_qk_norm_in_gdn v_norm_with_scale float32_weight_sum float32_gate_logits "
        "qk_clip_threshold attn_module_name"
    ),
    "the choice of experts, not how many": (
        "n_routing_groups norm_topk_prob routed_bias routed_bias_update_rate routed_scaling_factor routed_score_func "
        "topk_routing_group use_random_routing moe_topk_before_ep_all_gather defer_small_all_reduces first_num_hash_layers"
    ),
    "the same bytes in other calls": (
        "check_vma fused_mlp fused_qkv internal_compile internal_compile_num_devices merge_gating_gmm param_scan_axis "
        "remove_size_one_mesh_axis_from_type shard_mode shardy vocab_tiling_ag_once use_custom_sort_vjp router_topk_matmul_vjp "
        "input_data_sharding_logical_axes data_sharding enable_padding_causal_mask optimize_mesh_for_tpu_v6e "
        "use_sliced_mla_proj replicate_quant_scale float32_qk_product override_model_config use_m3_model use_lineage"
    ),
    "tiles and kernels of the same work": (
        "cost_estimate_flops_* local_sa_* local_use_splash_scheduler megablox mhc_pallas_kernel_* "
        "ragged_gather_* ragged_sort_use_single_sparsecore sa_bwd_dkv_megacore sa_fuse_reciprocal sa_k_layout sa_q_layout "
        "sa_use_base2_exp sa_v_layout tile_size_for_vit use_csa_streamindex_kernel use_gather_mosaic_kernel use_gmm_v2 "
        "use_gmm_v2_heuristic_tiling use_max_logit_estimate use_mhc_pallas_kernel use_ragged_sort use_splash_scheduler "
        "use_tokamax_gmm wi_tile_* wo_tile_* moe_pin_sparse_core_* moe_fsdp_all_gather_sparse_core_id "
        "moe_ep_all_gather_sparse_core_id gdn_chunk_size"
    ),
    "of a pipeline, which is refused": (
        "num_layers_per_pipeline_stage num_pipeline_* pipeline_* scan_layers_per_stage scan_pipeline_* set_remat_policy_on_*"
    ),
    "of a key that is noted or refused": (
        "act_quantization_calibration_method bwd_quantization_calibration_method drhs_grad_quantization_calibration_method "
        "logits_proj_quant_calibration_method weight_quantization_calibration_method quant_cfg_path "
        "quantization_local_shard_count quantize_* unquantized_modules use_manual_quantization use_qwix_quantization "
        "weight_block_size weight_sparsity_start_step weight_sparsity_update_step batch_split_factor "
        "block_diffusion_* causal_block_size chunk_attn_window_size compress_ratios csa_qk_head_chunk_size o_groups "
        "o_lora_rank diloco_* enable_streaming_diloco num_diloco_fragments num_communication_overlapping_steps "
        "communication_overlapping_alpha use_sequential_layers dcn_bandwidth_burst dcn_bandwidth_interface "
        "dcn_bandwidth_latency distill_* lti_* student_params_to_update enable_mhc_lite sinkhorn_iterations engram_* "
        "gdn_* global_rampup_samples per_device_batch_size_increment per_device_batch_size_start hf_lora_adapter_path "
        "indexer_* kv_lora_rank q_lora_rank mla_qk_head_chunk_size qk_nope_head_dim qk_rope_head_dim v_head_dim "
        "moba_* moe_chunk_barrier mtp_reuse_input_embedding first_phase_ragged_buffer_factor retry_dropless_first_steps "
        "te_ep_overflow_check_every_n_steps te_gmm_quantization vocab_size_per_layer_input "
        "inhomogeneous_layer_cycle_interval ulysses_context_sharding custom_mesh_and_rule_for_eval "
        "logical_axis_rules_for_eval override_logical_axis_rules tile_size_for_vit"
    ),
}

_PLACES = "placements are priced as base.yml has them"
_KEPT = "it is priced as recomputed: kept on the device it takes further memory"
_LAYERS = "layers are priced as those of the model's own file, or as alike"
_TEACHER = "the teacher of a distillation is not priced: its weights take further memory"
_SNAPSHOT = "the copy of the state in the host's memory is not priced"

NOTED = {
    "activations_in_float32": Noted(
        "activations are priced in bf16: fp32 takes further memory", unless=("false",), takes_memory=True
    ),
    "attention_out": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "attention_output_dim": Noted("attention's result is priced as heads x head_dim", unless=("-1",)),
    "cast_logits_to_fp32": Noted("logits are priced in fp32", unless=("true",)),
    "context_sharding": Noted(_PLACES, unless=("context",)),
    "custom_mesh": Noted(_PLACES, unless=("",)),
    "custom_mesh_and_rule": Noted(_PLACES, unless=("",)),
    "dcn_bandwidth_limit": Noted("the network between slices is priced at its full rate", unless=("",)),
    "dense_fsdp_use_two_stage_all_gather": Noted("weights are priced as gathered in one stage", unless=("false",)),
    "dropout_rate": Noted("masks of dropout are not priced: they take further memory", unless=("0", "0.0")),
    "elastic_enabled": Noted(_SNAPSHOT, unless=("false",), takes_memory=True),
    "enable_diloco": Noted(
        "the outer optimizer's copy of the weights is not priced: it takes memory", unless=("false",), takes_memory=True
    ),
    "enable_emergency_checkpoint": Noted(_SNAPSHOT, unless=("false",), takes_memory=True),
    "enable_multi_tier_checkpointing": Noted(_SNAPSHOT, unless=("false",), takes_memory=True),
    "enable_rampup_batch_size": Noted("the batch is priced as per_device_batch_size", unless=("false",)),
    "engram": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "experimental_sa_quant_k_fp8": Noted("attention is priced in bf16", unless=("false",)),
    "experimental_sa_quant_q_fp8": Noted("attention is priced in bf16", unless=("false",)),
    "engram_layers": Noted("its tables of n-grams are not priced: they take further memory", unless=("",), takes_memory=True),
    "first_num_dense_layers": Noted(_LAYERS, unless=("0",)),
    "global_head_dim": Noted(_LAYERS, unless=("0",)),
    "global_num_kv_heads": Noted(_LAYERS, unless=("0",)),
    "grad_dtype": Noted("gradients are priced in the weights' dtype", unless=("float32",)),
    "hidden_size_per_layer_input": Noted(
        "the embedding of each layer is not priced: it takes further memory", unless=("0",), takes_memory=True
    ),
    "indexer_cutoff_threshold": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "interleave_moe_layer_step": Noted(_LAYERS, unless=("1",)),
    "kv_wa_proj": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "learn_to_init_mode": Noted(_TEACHER, unless=("false",), takes_memory=True),
    "logical_axis_rules": Noted(_PLACES, unless=("",)),
    "matmul_precision": Noted("products are priced in bf16", unless=("default",)),
    "mhc_expansion_rate": Noted(
        "one residual stream is priced: each further one takes as much memory", unless=("1",), takes_memory=True
    ),
    "mla_kv": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "mla_q": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "mlp_bias": Noted("biases of the feed-forward are not priced", unless=("false",)),
    "mlpwo": Noted("no backward pass reads it, so JAX keeps it under no policy", unless=("remat",)),
    "moe_dispatch_no_expert_sharding": Noted("the dispatch is priced over all expert ranks", unless=("false",)),
    "moe_dropless_fallback": Noted("the step is priced as its first attempt, with its own buffers", unless=("none",)),
    "moe_expert_input_dim": Noted("rows are priced with all features of the stream", unless=("-1",)),
    "moe_fsdp_use_two_stage_all_gather": Noted("weights are priced as gathered in one stage", unless=("false",)),
    "moe_mlpwo": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "moe_quantize_combine_bwd_method": Noted("rows are priced in bf16", unless=("",)),
    "moe_quantize_token_all_gather": Noted("rows are priced in bf16", unless=("false",)),
    "moe_routing_maps": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "moe_use_direct_token_gather": Noted("rows are priced as copied to their experts' order", unless=("false",)),
    "num_kv_shared_layers": Noted("every layer is priced with keys and values of its own", unless=("0",)),
    "num_moe_emb_chunks": Noted("the dispatch is priced without overlap", unless=("0",)),
    "num_moe_token_chunks": Noted("the dispatch is priced without overlap", unless=("1",)),
    "offline_data_dir": Noted("the step is priced as training on tokens", unless=("none", "")),
    "padded_base_moe_mlp_dim": Noted(
        "experts are priced without padding: padded ones take further memory", unless=("none",), takes_memory=True
    ),
    "query_wa_proj": Noted(_KEPT, unless=("remat",), takes_memory=True),
    "shard_embed_moe_on_fsdp": Noted(_PLACES, unless=("false",)),
    "shard_exp_on_fsdp": Noted(_PLACES, unless=("false",)),
    "shard_optimizer_over_data": Noted("every replica is priced with its own optimizer state", unless=("false",)),
    "share_kv_projections": Noted("keys and values are priced with a projection each", unless=("false",)),
    "shared_experts": Noted("shared experts are priced as the model's own file has them", unless=("0",)),
    "sliding_window_size": Noted("windows are priced as the model's own file has them", unless=("0",)),
    "student_overrides": Noted(_TEACHER, unless=("{}",), takes_memory=True),
    "teacher_overrides": Noted(_TEACHER, unless=("{}",), takes_memory=True),
    "distill_student_weights_share_map": Noted(_TEACHER, unless=("{}",), takes_memory=True),
    "distill_weights_copy_map": Noted(_TEACHER, unless=("{}",), takes_memory=True),
    "te_comm_gemm_overlap": Noted("communication over tensor is priced without overlap", unless=("disabled",)),
    "te_moe_block": Noted("experts are priced as MaxText's own block", unless=("false",)),
    "trainable_parameters_mask": Noted("every parameter is priced as trained", unless=("",)),
    "trainable_position_size": Noted("a table of positions is not priced", unless=("-1",)),
    "use_2d_fsdp_sharding": Noted(_PLACES, unless=("false",)),
    "use_audio": Noted("the audio encoder is not priced: it takes further memory", unless=("false",), takes_memory=True),
    "use_batch_split_schedule": Noted("the dispatch is priced without overlap", unless=("false",)),
    "use_double_wide_mlp": Noted(_LAYERS, unless=("false",)),
    "use_indexer": Noted(
        "the indexer of sparse attention is not priced: it takes further memory", unless=("false",), takes_memory=True
    ),
    "use_iota_embed": Noted("the embedding is priced as a look-up", unless=("false",)),
    "use_multimodal": Noted("the vision encoder is not priced: it takes further memory", unless=("false",), takes_memory=True),
    "use_untrainable_positional_embedding": Noted("positions are priced as rotations", unless=("false",)),
    "weight_sparsity_m": Noted("weights are priced as dense", unless=("none",)),
    "weight_sparsity_n": Noted("weights are priced as dense", unless=("none",)),
}

ROLES = Roles(read=READ, harmless=HARMLESS, noted=NOTED)
