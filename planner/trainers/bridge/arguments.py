"""Settings of Megatron-Bridge and NeMo as arguments of Megatron."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from planner.trainers.common.known_keys import known_keys
from planner.trainers.megatron.arguments import Arguments

COMMON: Mapping[str, Any] = MappingProxyType(
    {
        "global_batch_size": 32,
        "micro_batch_size": 2,
        "grad_reduce_in_fp32": True,
        "data_parallel_sharding_strategy": "optim_grads_params",
        "use_distributed_optimizer": True,
        "seq_length": 4096,
    }
)
"""Settings of ``_pretrain_common`` (Megatron-Bridge, recipes/common.py), which recipes begin with."""
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "layernorm_epsilon": "norm-epsilon",
        "num_moe_experts": "num-experts",
        "encoder_seq_length": "seq-length",
        "sequence_length": "seq-length",
        "tensor_parallelism": "tensor-model-parallel-size",
        "pipeline_parallelism": "pipeline-model-parallel-size",
        "context_parallelism": "context-parallel-size",
        "sequence_parallelism": "sequence-parallel",
        "activations_checkpoint_granularity": "recompute-granularity",
        "activations_checkpoint_method": "recompute-method",
        "activations_checkpoint_num_layers": "recompute-num-layers",
        "make_vocab_size_divisible_by": "make-vocab-size-divisible-by",
    }
)
"""Names that differ from Megatron's arguments by more than their dashes."""
IF_TRUE = MappingProxyType({"gated_linear_unit": "swiglu", "qk_layernorm": "qk-layernorm", "add_qkv_bias": "add-qkv-bias"})
IF_FALSE = MappingProxyType(
    {
        "add_bias_linear": "disable-bias-linear",
        "bias": "disable-bias-linear",
        "share_embeddings_and_output_weights": "untie-embeddings-and-output-weights",
        "grad_reduce_in_fp32": "grad-reduce-in-bf16",
    }
)
PEFT = ("peft", "peft_scheme", "peft.peft_scheme")


def arguments_of(values: Mapping[str, Any]) -> Arguments:
    """Return the arguments of Megatron that the settings mean; others have no part in memory and time."""
    found: Arguments = {"bf16": [], "no-create-attention-mask-in-dataloader": []}  # its datasets leave the mask out
    for dotted, value in values.items():
        name = dotted.rpartition(".")[2]
        argument = NAMES.get(name, name.replace("_", "-"))
        if name in IF_TRUE or name in IF_FALSE:
            if value is True and name in IF_TRUE:
                found[IF_TRUE[name]] = []
            if value is False and name in IF_FALSE:
                found[IF_FALSE[name]] = []
        elif argument in known_keys("megatron") and value is not None and value is not False:
            words = value if isinstance(value, list | tuple) else [value]
            found[argument] = [] if value is True else [str(word) for word in words]
    return _completed(found, values)


def _completed(found: Arguments, values: Mapping[str, Any]) -> Arguments:
    if "num-query-groups" in found:
        found["group-query-attention"] = []
    if str(values.get("model.activation", "")).endswith("swiglu"):
        found["swiglu"] = []
    if found.get("normalization") == ["rmsnorm"]:
        found["normalization"] = ["RMSNorm"]
    if "distributed" in str(values.get("model.optim.name", "")):
        found["use-distributed-optimizer"] = []
    if "fp8" in str(values.get("mixed_precision", "")):
        found.setdefault("fp8-format", ["hybrid"])
    if found.get("attention-backend") in (["None"], ["auto"]):
        found.pop("attention-backend")
    return found


def devices_of(values: Mapping[str, Any]) -> int | None:
    """Nodes times devices of a node, where the settings state both."""
    sizes = {name.rpartition(".")[2]: value for name, value in values.items()}
    local = sizes.get("num_gpus_per_node", sizes.get("devices"))
    nodes = sizes.get("num_nodes", 1)
    return nodes * local if type(nodes) is int and type(local) is int and nodes > 0 and local > 0 else None
