"""The role of each of Accelerate's keys."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles

OFF = ("False", "None", "no", "", "{}")
_F, _P = "fsdp_config.fsdp_", "parallelism_config.parallelism_config_"

ROLES = Roles(
    read=frozenset(
        {
            "deepspeed_config",
            "distributed_type",
            "fsdp_config",
            "mixed_precision",
            "num_machines",
            "num_processes",
            "parallelism_config",
            _F + "activation_checkpointing",
            _F + "activation_checkpointing_offload",
            _F + "offload_params",
            _F + "reshard_after_forward",
            _F + "sharding_strategy",
            _F + "version",
            _P + "cp_backend",
            _P + "cp_comm_strategy",
            _P + "cp_size",
            _P + "dp_replicate_size",
            _P + "dp_shard_size",
            _P + "sp_size",
            _P + "tp_size",
        }
    ),
    harmless={
        "how processes start": (
            "command_file commands compute_environment debug enable_cpu_affinity gpu_ids machine_rank main_process_ip "
            "main_process_port main_training_function mpirun_config rdzv_backend same_network"
        ),
        "TPU and CPU, which this importer does not price": "tpu_* use_cpu downcast_bf16",
        "loading and saving": (
            "fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_state_dict_type fsdp_config.fsdp_sync_module_states"
        ),
        "the units that are gathered are a model's layers": (
            "fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_transformer_layer_cls_to_wrap"
        ),
        "bookkeeping of FSDP version 1": "fsdp_config.fsdp_use_orig_params",
        "of the training script's sequences": "parallelism_config.parallelism_config_sp_seq_length*",
        "the backend of sp_size, of which there is one": "parallelism_config.parallelism_config_sp_backend",
    },
    noted={
        "dynamo_config": Noted("priced as torch runs operations one by one", unless=OFF),
        "fp8_config": Noted("priced in bf16", unless=OFF),
        "megatron_lm_config": Noted("not read: give Megatron's arguments with --from-megatron", unless=OFF),
        _F + "backward_prefetch": Noted("priced with one layer gathered ahead", unless=("BACKWARD_PRE", "None", "")),
        _F + "forward_prefetch": Noted("priced with one layer gathered ahead", unless=OFF),
        _F + "min_num_params": Noted(
            "priced as one gathered unit per layer", unless=("0", "None", "100000000"), takes_memory=True
        ),
        _P + "sp_attn_implementation": Noted(
            "attention is priced as fused",
            unless=("flash_attention_2", "flash_attention_3", "sdpa", "None", ""),
            takes_memory=True,
        ),
    },
)
