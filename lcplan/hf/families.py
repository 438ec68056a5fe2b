"""The ``model_type`` values that lcplan's train step computes exactly, and the fixed parts of their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lcplan.spec.model import Family as SpecFamily


@dataclass(frozen=True)
class Family:
    """Defaults and fixed parts of one ``model_type``.

    ``qkv_bias``, ``out_bias``, ``mlp_bias`` are True, False, or the config key that decides (with ``bias_default`` where it is
    absent). ``window``: when ``sliding_window`` counts, never, always, or with ``use_sliding_window``.
    """

    spec_family: SpecFamily
    architectures: tuple[str, ...]
    """Classes of ``architectures`` that are this decoder with a head; the first is the usual one."""
    kv_heads: int | None = None
    """Default of num_key_value_heads where the key is absent; None: as many as query heads."""
    head_dim: int | None = None
    """Default of head_dim where the key is absent; None: hidden_size / num_attention_heads."""
    window: Literal["never", "always", "with-flag"] = "never"
    window_default: int | None = None
    period: int | None = None
    """Layers of one window pattern, all except the last with the window, where the config gives no other number."""
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    bias_default: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    tied: bool = False
    """Default of tie_word_embeddings."""
    activation: Literal["silu", "gelu_tanh"] = "silu"
    activation_keys: tuple[str, ...] = ("hidden_act", "hidden_activation")
    """Keys for the number of experts; the first one present counts."""
    eps: float = 1e-6
    theta: float = 10000.0
    scalings: tuple[str, ...] = ("default", "linear", "dynamic", "llama3", "yarn")
    """``rope_type`` values that the class computes as ModelSpec's Rope describes."""
    ignored: tuple[str, ...] = ()
    """Keys that would change another class but that this one does not read."""
    experts: Literal["mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "llama4"] | None = None
    """How the class states its experts (lcplan.hf.experts)."""
    counted_only: tuple[str, ...] = ()
    """Features of the class that neither the step nor the cost model has: the model is counted exactly, but not planned."""
    priced_only: tuple[str, ...] = ()
    """Features of the class that no step computes, but the cost model prices or may leave out: planned, but not compiled."""

    @property
    def unread_rope(self) -> bool:
        """Whether no step rotates by the class's RoPE, so that its scaling is of no concern."""
        return bool(self.counted_only or self.priced_only)


_DEEPSEEK = (
    "rope_scaling", "rope_parameters", "rope_interleave", "head_dim", "topk_group", "n_group", "aux_loss_alpha",
    "seq_aux", "ep_size", "output_router_logits", "num_nextn_predict_layers",
)  # fmt: skip
_GEMMA = (
    "rope_scaling", "rope_parameters", "rope_local_base_freq", "query_pre_attn_scalar", "attn_logit_softcapping",
    "final_logit_softcapping", "cache_implementation",
)  # fmt: skip
_LLAMA4 = (
    "rope_scaling", "rope_parameters", "use_qk_norm", "attention_chunk_size", "no_rope_layers", "no_rope_layer_interval",
    "layer_types", "attn_temperature_tuning", "attn_scale", "floor_scale", "output_router_logits", "for_llm_compressor",
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    "llama": Family("llama", ("LlamaForCausalLM",), qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "mistral": Family("mistral", ("MistralForCausalLM",), kv_heads=8, window="always", window_default=4096),
    "qwen2": Family(
        "qwen2",
        ("Qwen2ForCausalLM",),
        kv_heads=32,
        window="with-flag",
        window_default=4096,
        qkv_bias=True,
        ignored=("attention_bias",),
    ),
    "qwen3": Family(
        "qwen3",
        ("Qwen3ForCausalLM",),
        kv_heads=32,
        head_dim=128,
        window="with-flag",
        window_default=4096,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm=True,
    ),
    # Phi-3 stores query, key and value as one matrix and gate and up as another: the same numbers, the same step. It reads
    # every scaled rope as "longrope", which lcplan does not have.
    "phi3": Family("llama", ("Phi3ForCausalLM",), window="always", eps=1e-5, scalings=("default",)),
    "internlm": Family("llama", ("InternLMForCausalLM",), qkv_bias="bias", out_bias="bias", bias_default=True),
    "internlm2": Family("llama", ("InternLM2ForCausalLM",), qkv_bias="bias", out_bias="bias", bias_default=True),
    "yi": Family("llama", ("YiForCausalLM", "LlamaForCausalLM"), eps=1e-5, theta=5000000.0),
    "mixtral": Family(
        "mixtral",
        ("MixtralForCausalLM",),
        kv_heads=8,
        window="always",
        eps=1e-5,
        theta=1000000.0,
        experts="mixtral",
        ignored=("output_router_logits",),
    ),
    "qwen2_moe": Family(
        "qwen2_moe",
        ("Qwen2MoeForCausalLM",),
        kv_heads=16,
        window="with-flag",
        window_default=4096,
        qkv_bias=True,
        experts="qwen2_moe",
        ignored=("attention_bias", "output_router_logits"),
    ),
    "qwen3_moe": Family(
        "qwen3_moe",
        ("Qwen3MoeForCausalLM",),
        kv_heads=4,
        window="with-flag",
        window_default=4096,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm=True,
        experts="qwen3_moe",
        ignored=("use_qk_norm", "output_router_logits", "shared_expert_intermediate_size"),
    ),
    "gpt_oss": Family(
        "gpt_oss",
        ("GptOssForCausalLM",),
        kv_heads=8,
        head_dim=64,
        window="always",
        window_default=128,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        bias_default=True,
        eps=1e-5,
        theta=150000.0,
        experts="gpt_oss",
        period=2,
        ignored=("rope_scaling", "rope_parameters", "swiglu_limit", "initial_context_length", "output_router_logits"),
        priced_only=("clamped gates",),
    ),
    "gemma2": Family(
        "gemma2",
        ("Gemma2ForCausalLM",),
        kv_heads=4,
        head_dim=256,
        window="always",
        window_default=4096,
        period=2,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        post_norms=True,
        tied=True,
        activation="gelu_tanh",
        activation_keys=("hidden_activation", "hidden_act"),
        ignored=_GEMMA,
        priced_only=("soft-capped scores and logits", "scaled embeddings"),
    ),
    "gemma3_text": Family(
        "gemma3",
        ("Gemma3ForCausalLM",),
        kv_heads=4,
        head_dim=256,
        window="always",
        window_default=4096,
        period=6,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm=True,
        post_norms=True,
        tied=True,
        activation="gelu_tanh",
        activation_keys=("hidden_activation", "hidden_act"),
        theta=1000000.0,
        ignored=_GEMMA,
        priced_only=("another RoPE in windowed layers", "scaled embeddings"),
    ),
    "deepseek_v2": Family("deepseek_v2", ("DeepseekV2ForCausalLM",), experts="deepseek_v2", ignored=_DEEPSEEK),
    "kimi_k2": Family("deepseek_v3", ("DeepseekV3ForCausalLM",), experts="deepseek_v3", ignored=_DEEPSEEK),
    "deepseek_v3": Family("deepseek_v3", ("DeepseekV3ForCausalLM",), experts="deepseek_v3", ignored=_DEEPSEEK),
    "llama4_text": Family(
        "llama4",
        ("Llama4ForCausalLM",),
        kv_heads=8,
        head_dim=128,
        eps=1e-5,
        theta=500000.0,
        experts="llama4",
        ignored=_LLAMA4,
        counted_only=("chunked attention", "layers without RoPE", "routing weights on the experts' input"),
    ),
}
