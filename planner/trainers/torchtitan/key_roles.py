"""The role of each of torchtitan's keys in the sections training and parallelism."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles

OFF = ("False", "None", "")

ROLES = Roles(
    read=frozenset(
        {
            "parallelism.context_parallel_degree",
            "parallelism.data_parallel_replicate_degree",
            "parallelism.data_parallel_shard_degree",
            "parallelism.expert_parallel_degree",
            "parallelism.fsdp_reshard_after_forward",
            "parallelism.pipeline_parallel_degree",
            "parallelism.tensor_parallel_degree",
            "training.disable_cuda_graphs",
            "training.dtype",
            "training.enable_cpu_offload",
            "training.global_batch_size",
            "training.local_batch_size",
            "training.seq_len",
        }
    ),
    harmless={
        "length and cleaning of the run": "training.steps training.gc_freq training.gc_debug training.max_norm",
        "of a pipeline, which is refused": ("parallelism.pipeline_parallel_* parallelism.module_fqns_per_model_part"),
        "bookkeeping of sharded tensors": "parallelism.spmd_backend",
        "which mask of several balances the sequence": "parallelism.context_parallel_ptrr_mask_key",
    },
    noted={
        "parallelism.context_parallel_load_balancer": Noted(
            "priced as balanced; without it the last ranks work longest", unless=("ptrr", "headtail")
        ),
        "parallelism.enable_fsdp_symm_mem": Noted("gathers and reductions are priced as NCCL's", unless=OFF),
        "parallelism.enable_sequence_parallel": Noted(
            "activations between layers are whole on every tensor rank; memory and time are priced for sequence parallelism",
            unless=("True",),
            takes_memory=True,
        ),
        "training.mixed_precision_param": Noted(
            "weights are priced as gathered in bf16", unless=("bfloat16",), takes_memory=True
        ),
        "training.mixed_precision_reduce": Noted("gradients are priced as reduced in fp32", unless=("float32",)),
    },
)
