"""Keys that change the architecture to something that lcplan does not model, unless their value is neutral."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_CHANGES: tuple[tuple[str, str], ...] = (
    (r"expert|(^|_)moe(_|$)|router|first_k_dense|mlp_only_layers|decoder_sparse_step", "mixture of experts"),
    (r"lora_rank|qk_nope_head_dim|qk_rope_head_dim|v_head_dim|(^|_)mla(_|$)", "multi-head latent attention"),
    (r"mamba|(^|_)ssm|conv_kernel|linear_(num|key|value|att)|lru_|rwkv|hybrid|retention", "recurrent or linear layers"),
    (r"vision|visual|audio|image|video|(^|_)mm_|speech|text_config|projector", "more than text"),
    (r"cross_attention|add_cross|is_encoder_decoder|encoder_layers", "an encoder or cross attention"),
    (r"is_causal|causal_mask|bidirectional|diffusion", "attention that is not causal"),
    (r"use_rope|use_rotary", "positions other than RoPE"),
    (r"alibi|learned_pos|position_embedding_type|n_positions", "positions other than RoPE"),
    (r"partial_rotary|rotary_pct|rotary_dim|rope_pct|no_rope|nope|rope_interleav|mrope|rope_local|rope_ratio", "another RoPE"),
    (r"qk_norm|qk_layernorm|q_norm|k_norm|clip_qkv|sinks?(_|$)|attention_chunk|indexer|index_|sparse_att", "another attention"),
    (r"softcap|logit_scale|logits_scaling|_multiplier|scale_emb|scale_depth|dim_model_base|(^|_)mup", "scaled activations"),
    (r"parallel_attn|parallel_residual|sandwich|post_norm|norm_type|norm_after|layer_norm_ep|layernorm_ep", "another block"),
    (r"no_bias|bias_linear|(^|_)bias$", "other biases"),
    (r"nextn|(^|_)mtp(_|$)|num_codebooks|medusa", "heads beyond the next token"),
    (r"kv_shared|share_layers|cla_share|num_kv_shared|recurrent_depth|layer_sharing|tie_layers", "shared layers"),
    (r"block_config|layer_config|per_layer|ffn_mult|num_layers_per|mlp_type|adapter", "layers of other kinds"),
)
_PATTERNS = tuple((re.compile(pattern), what) for pattern, what in _CHANGES)

_HARMLESS = re.compile(
    r"attention_sink_size|sliding_window_size|context_window_size|prefill_chunk_size"  # mlc-llm's serving cache
    r"|_name_or_path|(torch_)?dtype|.*transformers_version|use_cache|use_return_dict|return_dict.*|output_.*|initializer_range"
    r"|.*_token_ids?|pretraining_tp|chunk_size_feed_forward|.*2.*(label|id)|problem_type|.*(_dropout|_pdrop)|quantization_config"
    r"|_?attn_implementation|is_decoder|max_window_layers|tokenizer_class|unsloth.*|max_sequence_length|torchscript"
    r"|original_max_position_embeddings|seq_length|_flash_attn_2_enabled|gradient_checkpointing|finetuning_task|prefix"
    r"|(min|max)_length|do_sample|early_stopping|num_(beams|beam_groups|return_sequences)|temperature|top_[kp]|typical_p"
    r"|.*_penalty|.*no_repeat_ngram_size|bad_words_ids|suppress_tokens|begin_suppress_tokens|remove_invalid_values"
    r"|use_bfloat16|tf_legacy_loss|task_specific_params|sep_token_id|tie_encoder_decoder|pruned_heads|cross_attention_hidden_size"
)
_NEUTRAL_TEXT = {
    "norm_type": {"rms_norm", "rmsnorm"},
    "mlp_type": {"default", "gated"},
    "position_embedding_type": {"rope", "rotary"},
}
_TRUE_IS_NEUTRAL = {"is_causal", "use_causal_mask", "use_rope", "use_rotary", "use_rotary_embedding"}
_ONE_IS_NEUTRAL = re.compile(r"multiplier|scal|factor|pct|ratio")


def refusals(config: Mapping[str, Any], used: frozenset[str]) -> Iterator[str]:
    """One line for each key, not in ``used``, that asks for something lcplan does not model."""
    for key, value in config.items():
        if key in used or _neutral(key, value):
            continue
        for pattern, what in _PATTERNS:
            if pattern.search(key):
                yield f"key {key!r} ({_short(value)}) means {what}, which lcplan does not model"
                break


def unknown_keys(config: Mapping[str, Any], used: frozenset[str]) -> list[str]:
    """Keys with a value that are neither read, nor refused, nor known to be without effect on the step."""
    return sorted(key for key, value in config.items() if key not in used and not _neutral(key, value))


def _neutral(key: str, value: Any) -> bool:
    if key in _TRUE_IS_NEUTRAL:
        return value is None or value is True
    if value is None or value is False or value in ("", [], {}) or _HARMLESS.fullmatch(key):
        return True
    if isinstance(value, str):
        return value.lower() in _NEUTRAL_TEXT.get(key, ())
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return value == 0 or (value == 1 and bool(_ONE_IS_NEUTRAL.search(key)))
    return False


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
