"""The role of each of DeepSpeed's keys."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles

OFF = ("False", "None", "", "{}", "{'enabled': False}")
_Z = "zero_optimization."

ROLES = Roles(
    read=frozenset(
        {
            "bf16",
            "bfloat16",
            "communication_data_type",
            "data_types",
            "gradient_accumulation_steps",
            "optimizer",
            "sequence_parallel_size",
            "tensor_parallel",
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
            "zero_optimization",
            _Z + "allgather_bucket_size",
            _Z + "offload_optimizer",
            _Z + "offload_param",
            _Z + "overlap_comm",
            _Z + "reduce_bucket_size",
            _Z + "stage",
            _Z + "zero_hpz_partition_size",
        }
    ),
    harmless={
        "logging, profiling and monitoring": (
            "comet comms_logger csv_monitor dump_state flops_profiler log_level memory_breakdown steps_per_print tensorboard "
            "timers wall_clock_breakdown wandb autotuning zero_optimization.log_trace_cache_warnings"
        ),
        "checkpoints and restarts": (
            "checkpoint datastates_ckpt nebula elasticity zero_optimization.elastic_checkpoint "
            "zero_optimization.load_from_fp32_weights zero_optimization.pipeline_loading_checkpoint "
            "zero_optimization.stage3_gather_*_weights_on_model_save"
        ),
        "data and the schedule of the run": (
            "curriculum_learning data_efficiency dataloader_drop_last scheduler eigenvalue progressive_layer_drop"
        ),
        "the scale of gradients": (
            "gradient_clipping gradient_predivide_factor gradient_allreduce_op prescale_gradients "
            "zero_optimization.compute_grad_norm"
        ),
        "checks and bookkeeping": (
            "disable_python_gc managed_gradient_accumulation graph_harvesting zero_allow_untested_optimizer "
            "zero_force_ds_cpu_optimizer zero_optimization.enable_sanity_checks zero_optimization.ignore_unused_parameters "
            "zero_optimization.legacy_stage1 zero_optimization.override_module_apply zero_optimization.parameter_alignment "
            "zero_optimization.round_robin_gradients zero_optimization.contiguous_gradients zero_optimization.leaf_module "
            "zero_optimization.stage3_module_granularity_threshold zero_optimization.cpu_offload_use_pin_memory"
        ),
        "the same bytes in other calls": (
            "zero_optimization.allgather_partitions zero_optimization.reduce_scatter "
            "zero_optimization.stage3_allgather_sequential "
            "zero_optimization.stage3_use_all_reduce_for_fetch_params zero_optimization.use_multi_rank_bucket_allreduce "
            "zero_optimization.sub_group_size zero_optimization.memory_efficient_linear"
        ),
        "inference": "hybrid_engine",
        "the number of data-parallel ranks, which follows from the others": "data_parallel_size",
        "a pipeline is built in Python, and of it lcplan reads nothing": "pipeline",
    },
    noted={
        "activation_checkpointing": Noted("checkpointing is the training script's: give --remat", unless=OFF),
        "aio": Noted("the speed of NVMe is not priced", unless=OFF),
        "amp": Noted("priced as bf16 with fp32 masters", unless=OFF),
        "compile": Noted("priced as torch runs operations one by one", unless=OFF),
        "compression_training": Noted("compressed weights and activations are priced in bf16", unless=OFF),
        "disable_allgather": Noted("weights are priced as gathered", unless=OFF),
        "expert_parallel": Noted("expert ranks are not priced: every rank is priced with all experts", unless=OFF),
        "fp16": Noted("priced as bf16, which takes as many bytes", unless=OFF),
        "quantize_training": Noted("priced in bf16", unless=OFF),
        "seq_parallel_communication_data_type": Noted("priced in bf16", unless=("bf16", "bfp16", "None")),
        "sparse_attention": Noted("attention is priced as dense", unless=OFF),
        "sparse_gradients": Noted("gradients of embeddings are priced as dense", unless=OFF),
        "torch_autocast": Noted("priced as bf16 weights with fp32 masters", unless=OFF),
        "use_data_before_expert_parallelism": Noted("the order of expert ranks is not priced", unless=OFF),
        "weight_quantization": Noted("weights are priced in bf16", unless=OFF),
        _Z + "cpu_offload": Noted("an old key: use offload_optimizer, which is priced", unless=OFF),
        _Z + "cpu_offload_param": Noted("an old key: use offload_param, which is priced", unless=OFF),
        _Z + "save_muon_momentum_buffer_in_memory": Noted("lcplan prices AdamW with two moments", unless=OFF),
        _Z + "stage3_max_live_parameters": Noted("priced as two layers' gathered weights", unless=("auto", "1000000000")),
        _Z + "stage3_max_reuse_distance": Noted("weights are priced as gathered in each pass", unless=("auto", "1000000000")),
        _Z + "stage3_model_persistence_threshold": Noted("small weights that stay whole are priced as split", unless=("auto",)),
        _Z + "stage3_param_persistence_threshold": Noted(
            "small weights stay whole; priced as split", unless=("auto", "100000")
        ),
        _Z + "stage3_prefetch_bucket_size": Noted("priced as one layer ahead", unless=("auto", "50000000")),
        _Z + "zenflow": Noted("its asynchronous updates are not priced", unless=OFF),
        _Z + "zero_quantized_gradients": Noted("gradients are priced as reduced in bf16", unless=OFF),
        _Z + "zero_quantized_nontrainable_weights": Noted("weights are priced in bf16", unless=OFF),
        _Z + "zero_quantized_weights": Noted("weights are priced as gathered in bf16", unless=OFF),
    },
)
