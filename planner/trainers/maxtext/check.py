"""MaxText: pyconfig's validation, then the mesh, remat and attention names that it lets through."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from lcplan_checker import answer


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Facts of the configuration as MaxText understands it."""
    import jax
    from maxtext.configs import pyconfig

    jax.devices()  # XLA reads its flags here, and one that it does not know ends the process
    words = ["", request["file"], "log_config=false", *request.get("overrides", ())]
    if request.get("rl"):
        from maxtext.configs.types import RLConfig

        return _rl(pyconfig.initialize(words, config_class=RLConfig), request)
    config = pyconfig.initialize(words)
    return {
        "devices": config.num_target_devices,
        "mesh": _mesh(config),
        "seq_len": config.max_target_length,
        "global_batch": config.global_batch_size_to_train_on,
        "microbatches": config.gradient_accumulation_steps,
        "remat_policy": _remat(config),
        "attention": _attention(config),
        "parameters": _shape(config),
        **_experts(config),
    }


def _rl(config: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Facts of a configuration of its RL, whose axes it multiplies only on the devices."""
    mesh, rollout = _axes(config), [config.rollout_data_parallelism, config.rollout_tensor_parallelism]
    for name, devices in (("trainer", prod(mesh.values())), ("sampler", prod(rollout))):
        if devices != request["devices"]:
            raise ValueError(f"axes of the {name} multiply to {devices}, the plan has {request['devices']} devices")
    return {
        "devices": request["devices"],
        "mesh": mesh,
        "seq_len": config.max_target_length,
        "prompt": config.max_prefill_predict_length,
        "global_batch": config.batch_size * config.rl.num_generations,
        "microbatches": config.batch_size // config.train_micro_batch_size,
        "rollout": rollout,
        "kl_coefficient": config.rl.grpo_beta,
        "remat_policy": _remat(config),
        "attention": _attention(config),
        "parameters": _shape(config),
    }


def _axes(config: Any) -> dict[str, int]:
    sizes = [ici * dcn for ici, dcn in zip(config.ici_parallelism, config.dcn_parallelism, strict=True)]
    named = dict(zip(config.mesh_axes, sizes, strict=True))
    return {axis: named[axis] for axis in ("data", "fsdp", "context", "tensor")}


def _mesh(config: Any) -> dict[str, int]:
    """Axis sizes; their product must be the devices, which pyconfig does not look at."""
    sizes = [ici * dcn for ici, dcn in zip(config.ici_parallelism, config.dcn_parallelism, strict=True)]
    if prod(sizes) != config.num_target_devices:
        raise ValueError(f"mesh axes multiply to {prod(sizes)}, the target has {config.num_target_devices} devices")
    named = dict(zip(config.mesh_axes, sizes, strict=True))
    axes = ("data", "fsdp", "context", "tensor", *("expert",) * (named["expert"] > 1))
    return {"order": [name for name in config.mesh_axes if name in axes], **{axis: named[axis] for axis in axes}}


def _remat(config: Any) -> str:
    """The policy's name, refused where the decoder would refuse it: the names that its own source compares with."""
    import maxtext

    source = Path(maxtext.__path__[0], "layers", "nnx_decoders.py").read_text(encoding="utf-8")
    function = next(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == "get_remat_policy"
    )
    compared = [inner for node in ast.walk(function) if isinstance(node, ast.Compare) for inner in ast.walk(node)]
    known = {node.value for node in compared if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    if config.remat_policy not in known:
        raise ValueError(f"remat_policy {config.remat_policy!r} is not one of {', '.join(sorted(known))}")
    return str(config.remat_policy)


def _attention(config: Any) -> str:
    known = ("autoselected", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax")
    if config.attention not in known:
        raise ValueError(f"attention {config.attention!r} is not one of {', '.join(known)}")
    return str(config.attention)


def _shape(config: Any) -> list[int]:
    names = ("num_decoder_layers", "emb_dim", "mlp_dim", "num_query_heads", "num_kv_heads", "head_dim", "vocab_size")
    return [int(getattr(config, name)) for name in names]


def _experts(config: Any) -> dict[str, Any]:
    """Number, experts of a token and width; and the kind of dispatch with its capacity."""
    if config.num_experts == 1:
        return {}
    return {
        "experts": [int(config.num_experts), int(config.num_experts_per_tok), int(config.moe_mlp_dim)],
        "dispatch": {
            "sparse": bool(config.sparse_matmul),
            "ring": bool(config.use_ring_of_experts),
            "capacity_factor": float(config.capacity_factor),
            "ragged_buffer_factor": float(config.ragged_buffer_factor),
        },
    }


def keys() -> Iterator[str]:
    """The fields of MaxText's configuration."""
    from maxtext.configs.types import MaxTextConfig

    yield "base_config"
    yield from MaxTextConfig.model_fields


if __name__ == "__main__":
    answer(check, "maxtext", preload="maxtext.configs.pyconfig", keys=keys)
