"""ModelSpec: a decoder-only transformer, as far as memory, compute and communication depend on it."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lcplan.frozen import Frozen

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


class ModelSpec(Frozen):
    """A dense Llama-like decoder: RMSNorm, RoPE, grouped-query attention, gated or plain feed-forward.

    Sizes use the legend of docs/notation.md: D ``d_model``, F ``d_ff``, N ``heads``, K ``kv_heads``, H ``head_dim``,
    L ``layers``, V ``vocab``.

    >>> llama = ModelSpec(name="l", layers=32, d_model=4096, d_ff=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256)
    >>> llama.parameters
    8030261248
    """

    name: Annotated[str, Field(min_length=1, max_length=120)]
    source: str = "user"
    family: Literal["llama", "mistral", "qwen2", "qwen3"] = "llama"
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
    """``gated``: gate, up and down (Llama). ``plain``: up and down alone (GPT-3): the laws price it, no step builds it."""
    activation: Literal["silu", "gelu", "gelu_tanh", "relu"] = "silu"
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    rope: Rope = Rope()
    sliding_window: Annotated[int, Field(gt=0)] | None = None
    max_position: Annotated[int, Field(gt=0)] | None = None
    notes: tuple[str, ...] = ()
    """What the reader of a config.json must know (a quantisation that training ignores, for example)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} is odd; RoPE rotates pairs")
        return self

    @property
    def group(self) -> int:
        """G = N / K, query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @property
    def up_matrices(self) -> int:
        """Matrices of the feed-forward that read the residual stream: gate and up, or up alone."""
        return 2 if self.mlp == "gated" else 1

    @cached_property
    def layer_matrix_parameters(self) -> int:
        """Parameters of one layer's matrices: q, k, v, o, gate (unless plain), up, down."""
        attention = self.d_model * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + (self.up_matrices + 1) * self.d_model * self.d_ff

    @cached_property
    def layer_vector_parameters(self) -> int:
        """Parameters of one layer's vectors: two norms, biases, query and key norms."""
        count = 2 * self.d_model
        count += (self.heads + 2 * self.kv_heads) * self.head_dim * self.qkv_bias
        count += self.d_model * self.out_bias
        count += (self.up_matrices * self.d_ff + self.d_model) * self.mlp_bias
        return count + 2 * self.head_dim * self.qk_norm

    @cached_property
    def embedding_parameters(self) -> int:
        """Parameters of the token embedding and, where it is not tied, the head."""
        return self.vocab * self.d_model * (1 if self.tied_embeddings else 2)

    @cached_property
    def parameters(self) -> int:
        """Exact parameter count."""
        layer = self.layer_matrix_parameters + self.layer_vector_parameters
        return self.layers * layer + self.embedding_parameters + self.d_model

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets; all of them in a dense model."""
        return self.parameters
