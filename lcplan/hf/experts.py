"""The experts and the latent attention that a config states, each class in its own words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import ValidationError

from lcplan.hf.keys import Keys
from lcplan.spec.experts import Experts, LatentAttention

LARGEST_EXPERTS = 65536
LARGEST_SIZE = 10**8
_NO_BALANCE = "router_aux_loss_coef is ignored: the loss has no load-balancing term"


def read_experts(keys: Keys, kind: str, *, layers: int) -> Experts | None:
    """The experts of a class that has some; None, with a problem noted, where they are of a kind that is not counted."""
    values = _READ[kind](keys, layers)
    if keys.get("router_aux_loss_coef"):
        keys.notes.append(_NO_BALANCE)
    if keys.get("router_jitter_noise"):
        keys.notes.append("router_jitter_noise is ignored: the step routes without noise")
    if values["active"] > values["count"]:
        keys.problems.append(f"num_experts_per_tok: {values['active']} is more than the {values['count']} experts")
    if keys.problems:
        return None
    try:
        return Experts.model_validate(values)
    except ValidationError as error:
        keys.problems.extend(str(problem["msg"]).removeprefix("Value error, ") for problem in error.errors())
        return None


def read_latent(keys: Keys) -> LatentAttention:
    """DeepSeek's attention; a null or absent q_lora_rank of V2-Lite means no compressed query."""
    given = "q_lora_rank" in keys.config and not keys.has("q_lora_rank")
    rank = None if given else keys.whole("q_lora_rank", largest=LARGEST_SIZE, default=1536)
    keys.get("q_lora_rank")
    return LatentAttention(
        query_rank=rank,
        kv_rank=keys.whole("kv_lora_rank", largest=LARGEST_SIZE, default=512),
        nope_dim=keys.whole("qk_nope_head_dim", largest=LARGEST_SIZE, default=128),
        rope_dim=keys.whole("qk_rope_head_dim", largest=LARGEST_SIZE, default=64),
        value_dim=keys.whole("v_head_dim", largest=LARGEST_SIZE, default=128),
    )


def _count(keys: Keys, name: str, *, default: int | None = None) -> int:
    return keys.whole(name, largest=LARGEST_EXPERTS, default=default)


def _mixtral(keys: Keys, layers: int) -> dict[str, Any]:
    return {
        "count": _count(keys, "num_local_experts", default=8),
        "active": _count(keys, "num_experts_per_tok", default=2),
        "d_ff": keys.whole("intermediate_size", largest=LARGEST_SIZE, default=14336),
    }


def _qwen2(keys: Keys, layers: int) -> dict[str, Any]:
    """Its shared expert is weighed by a sigmoid."""
    values = _qwen3(keys, layers)
    return {
        **values,
        "count": _count(keys, "num_experts", default=60),
        "active": _count(keys, "num_experts_per_tok", default=4),
        "d_ff": keys.whole("moe_intermediate_size", largest=LARGEST_SIZE, default=1408),
        "shared_d_ff": keys.whole("shared_expert_intermediate_size", largest=LARGEST_SIZE, default=5632),
        "shared_gate": True,
    }


def _qwen3(keys: Keys, layers: int) -> dict[str, Any]:
    dense = keys.get("mlp_only_layers") or []
    if not isinstance(dense, list) or dense != list(range(len(dense))):
        keys.problems.append(f"mlp_only_layers: {dense!s:.40} is not a run of the first layers")
        dense = []
    every = _count(keys, "decoder_sparse_step", default=1)
    if dense and every > 1:
        keys.problems.append("mlp_only_layers with decoder_sparse_step above 1 is not modelled")
    return {
        "count": _count(keys, "num_experts", default=128),
        "active": _count(keys, "num_experts_per_tok", default=8),
        "d_ff": keys.whole("moe_intermediate_size", largest=LARGEST_SIZE, default=768),
        "normalized": keys.flag("norm_topk_prob", default=False),
        "first_dense": len(dense),
        "every": every,
    }


def _gpt_oss(keys: Keys, layers: int) -> dict[str, Any]:
    active = _count(keys, "num_experts_per_tok", default=4)
    if _count(keys, "experts_per_token", default=active) != active:
        keys.problems.append("experts_per_token: differs from num_experts_per_tok; keep one")
    return {
        "count": _count(keys, "num_local_experts", default=128),
        "active": active,
        "d_ff": keys.whole("intermediate_size", largest=LARGEST_SIZE, default=2880),
        "bias": True,
        "router_bias": True,
    }


def _deepseek(keys: Keys, layers: int, *, third: bool) -> dict[str, Any]:
    if _count(keys, "moe_layer_freq", default=1) != 1:
        keys.problems.append("moe_layer_freq: only 1 is modelled")
    if keys.config.get("num_nextn_predict_layers"):
        keys.notes.append("num_nextn_predict_layers is ignored: heads beyond the next token are not counted")
    first = keys.get("first_k_dense_replace")
    d_ff = keys.whole("moe_intermediate_size", largest=LARGEST_SIZE)
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first <= layers:
        keys.problems.append(f"first_k_dense_replace: {first!r:.40} is not a whole number from 0 to the {layers} layers")
        first = 0
    return {
        "count": _count(keys, "n_routed_experts"),
        "active": _count(keys, "num_experts_per_tok"),
        "d_ff": d_ff,
        **_deepseek_router(keys, third=third),
        "shared_d_ff": d_ff * (_count(keys, "n_shared_experts") if keys.has("n_shared_experts") else 0),
        "first_dense": first,
    }


def _deepseek_router(keys: Keys, *, third: bool) -> dict[str, Any]:
    """V2 states how it groups; V3's class always groups, by the two best of sigmoids. Its balance bias starts at zero."""
    method = keys.get("topk_method") or ("noaux_tc" if third else "greedy")
    if method not in ("greedy", "group_limited_greedy", "noaux_tc"):
        keys.problems.append(f"topk_method: {method!r:.40} is not modelled")
    grouped = method != "greedy"
    if method == "noaux_tc":
        keys.notes.append("the router's e_score_correction_bias, which no gradient trains, is taken as zero")
    return {
        "normalized": keys.flag("norm_topk_prob", default=third),
        "scores": _scores(keys, default="sigmoid" if third else "softmax"),
        "scale": keys.number("routed_scaling_factor", default=2.5 if third else 1.0),
        "groups": _count(keys, "n_group", default=8 if third else 1) if grouped else 1,
        "groups_chosen": _count(keys, "topk_group", default=4 if third else 1) if grouped else 1,
        "group_best": 2 if method == "noaux_tc" else 1,
    }


def _scores(keys: Keys, *, default: str) -> str:
    scores = keys.get("scoring_func") or default
    if scores not in ("softmax", "sigmoid"):
        keys.problems.append(f"scoring_func: {scores!r:.40} is not modelled")
    return str(scores)


def _llama4(keys: Keys, layers: int) -> dict[str, Any]:
    every = _count(keys, "interleave_moe_layer_step", default=1)
    if keys.get("moe_layers") not in (None, list(range(every - 1, layers, every))):
        keys.problems.append("moe_layers: differs from interleave_moe_layer_step")
    width = keys.whole("intermediate_size", largest=LARGEST_SIZE, default=8192)
    return {
        "count": _count(keys, "num_local_experts", default=16),
        "active": _count(keys, "num_experts_per_tok", default=1),
        "d_ff": width,
        "normalized": False,
        "shared_d_ff": width,
        "every": every,
    }


_READ: dict[str, Callable[[Keys, int], dict[str, Any]]] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2,
    "qwen3_moe": _qwen3,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": partial(_deepseek, third=False),
    "deepseek_v3": partial(_deepseek, third=True),
    "llama4": _llama4,
}
