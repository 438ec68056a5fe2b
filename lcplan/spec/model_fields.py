"""The fields of a model's spec, and the checks that they fit together."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lcplan.formats.frozen import Frozen
from lcplan.formats.text import Line
from lcplan.spec.experts import Experts, LatentAttention
from lcplan.spec.windows import WindowPattern

Family = Literal[
    "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2",
    "deepseek_v3", "llama4",
]  # fmt: skip
_RARE = frozenset({"window_pattern", "post_norms", "unbuilt"})
"""Fields of few models."""
Count = Annotated[int, Field(gt=0, le=10**8)]


class Rope(Frozen):
    """Rotary position embedding and its scaling variant (names as in Hugging Face's ``rope_scaling``)."""

    theta: Annotated[float, Field(gt=0)] = 10000.0
    scaling: Literal["none", "linear", "dynamic", "llama3", "yarn"] = "none"
    factor: Annotated[float, Field(ge=1)] = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: Annotated[int, Field(gt=0)] | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    """YaRN's factor on attention; None: ``0.1 ln(factor) + 1``."""


class ModelFields(Frozen):
    """The fields of ``ModelSpec``, in the words of docs/notation.md."""

    name: Annotated[Line, Field(min_length=1, max_length=120)]
    source: str = "user"
    family: Family = "llama"
    layers: Annotated[int, Field(gt=0, le=4096)]
    d_model: Count
    d_ff: Count
    heads: Annotated[int, Field(gt=0, le=65536)]
    kv_heads: Annotated[int, Field(gt=0, le=65536)]
    head_dim: Annotated[int, Field(gt=0, le=65536)]
    vocab: Count
    tied_embeddings: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    """RMSNorm of each query and key head, over H, with one weight of H each a layer (Qwen3)."""
    mlp: Literal["gated", "plain"] = "gated"
    """``gated``: gate, up and down (Llama). ``plain``: only up and down (GPT-3); the cost model prices it, no step does."""
    experts: Experts | None = None
    """A mixture of experts; ``d_ff`` is then the width of the dense layers, if there are any."""
    latent: LatentAttention | None = None
    """Multi-head latent attention. A training step expands it to N heads of keys and values, so ``kv_heads`` is ``heads``; and
    ``head_dim`` is the mean of a head's features of key and value, which makes N H the mean width of both products."""
    attention_sinks: bool = False
    """One learned logit a query head that takes part in the softmax (gpt-oss)."""
    post_norms: bool = False
    """Norms of the outputs of attention and of the feed-forward layer too, of D each (Gemma 2 and 3)."""
    unplanned: tuple[str, ...] = ()
    """Further features of the model that the step does not compute: it is counted exactly, but not planned."""
    unbuilt: tuple[str, ...] = ()
    """Further features that no step computes, but the cost model prices or may leave out: planned, but not compiled."""
    activation: Literal["silu", "gelu", "gelu_tanh", "relu"] = "silu"
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    rope: Rope = Rope()
    sliding_window: Annotated[int, Field(gt=0)] | None = None
    """Tokens that a query of a windowed layer attends to: its own and those right before it."""
    window_pattern: WindowPattern | None = None
    """Which layers have the window; None: all, where there is one."""
    max_position: Annotated[int, Field(gt=0)] | None = None
    notes: tuple[str, ...] = ()
    """Notes for the reader of a config.json (a quantisation that training ignores, for example)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}")
        if self.latent is not None:
            mean = (self.latent.key_dim + self.latent.value_dim) / 2
            if (self.kv_heads, self.head_dim) != (self.heads, mean):
                raise ValueError(
                    f"kv_heads={self.kv_heads} and head_dim={self.head_dim} of latent attention must be heads={self.heads} and"
                    f" the mean of its key and value features, {mean:g}"
                )
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} is odd; RoPE rotates pairs")
        if self.window_pattern is not None and self.sliding_window is None:
            raise ValueError("window_pattern names the layers with a window, but sliding_window (its length) is missing")
        return self

    @model_serializer(mode="wrap")
    def _without_rare(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the keys of features that the model does not have."""
        data: dict[str, Any] = dump(self)
        return {name: value for name, value in data.items() if name not in _RARE or value}
