"""ModelSpec: a decoder-only transformer, as far as memory, compute and communication depend on it."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from lcplan.spec.experts import Experts
from lcplan.spec.layers import LayerKind, LayerRun, runs_of
from lcplan.spec.model_fields import Family, ModelFields, Rope

__all__ = ["Family", "ModelSpec", "Rope"]


class ModelSpec(ModelFields):
    """A Llama-like decoder: RMSNorm, RoPE, grouped-query attention, gated or plain feed-forward, or experts in its place.

    Sizes use the legend of docs/notation.md: D ``d_model``, F ``d_ff``, N ``heads``, K ``kv_heads``, H ``head_dim``,
    L ``layers``, V ``vocab``.

    >>> llama = ModelSpec(name="l", layers=32, d_model=4096, d_ff=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256)
    >>> llama.parameters
    8030261248
    """

    @property
    def group(self) -> int:
        """G = N / K, query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @property
    def up_matrices(self) -> int:
        """Matrices of the feed-forward that read the residual stream: gate and up, or only up."""
        return 2 if self.mlp == "gated" else 1

    @property
    def widths(self) -> dict[str, int]:
        """Widths of feed-forwards that some layer has, by the name of the field."""
        dense = {"d_ff": self.d_ff} if self.expert_layers < self.layers else {}
        if self.routed is None:
            return dense
        shared = {"experts.shared_d_ff": self.routed.shared_d_ff} if self.routed.shared_d_ff else {}
        return {**dense, "experts.d_ff": self.routed.d_ff, **shared}

    @property
    def not_planned(self) -> tuple[str, ...]:
        """Why the model is counted but cannot be planned; empty where it can."""
        return self.unplanned

    @property
    def not_built(self) -> tuple[str, ...]:
        """Features that the cost model prices or leaves out, but no step computes; empty: it can be compiled and timed."""
        parts = ["multi-head latent attention"] if self.latent else []
        parts += ["attention sinks"] if self.attention_sinks else []
        if self.experts is not None:
            parts += ["biases of experts"] if self.experts.bias or self.experts.router_bias else []
        parts += ["norms after attention and feed-forward"] if self.post_norms else []
        return (*parts, *self.unbuilt)

    def windows_within(self, seq_len: int) -> bool:
        """Whether some layer's window is shorter than a sequence of ``seq_len`` tokens."""
        return any(kind.window is not None and kind.window < seq_len for kind in self.layer_kinds)

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.experts.layers_of(self.layers) if self.experts else 0

    @property
    def routed(self) -> Experts | None:
        """Experts of any layer; zero for a dense part ``of_kind`` of a model with experts."""
        return self.experts if self.expert_layers else None

    def kind_of(self, layer: int) -> LayerKind:
        """The kind of layer number ``layer``, counted from 0."""
        windowed = self.window_pattern is None or self.window_pattern.of(layer)
        return LayerKind(
            experts=self.experts is not None and self.experts.of(layer), window=self.sliding_window if windowed else None
        )

    @cached_property
    def layer_kinds(self) -> dict[LayerKind, int]:
        """How many layers of each kind there are, in the order in which kinds first come."""
        counts: dict[LayerKind, int] = {}
        for layer in range(self.layers):
            kind = self.kind_of(layer)
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    @property
    def parts(self) -> tuple[Self, ...]:
        """The model by kinds of layers: each part has the layers of one kind and no others, so that all of its are alike."""
        return self._kinds if len(self.layer_kinds) > 1 else (self,)

    @cached_property
    def _kinds(self) -> tuple[Self, ...]:
        return tuple(self.of_kind(kind) for kind in self.layer_kinds)

    @cached_property
    def layer_runs(self) -> tuple[LayerRun, ...]:
        """All layers in order, as a program loops over them."""
        if len(self.layer_kinds) == 1:
            return (LayerRun((self.kind_of(0),), self.layers),)
        return runs_of([self.kind_of(layer) for layer in range(self.layers)])

    def of_kind(self, kind: LayerKind) -> Self:
        """The model with only the layers of one kind; itself if it has no others."""
        layers = self.layer_kinds[kind]
        if layers == self.layers:
            return self
        alike = {"first_dense": 0 if kind.experts else layers, "every": 1}
        experts = self.experts and self.experts.model_copy(update=alike)
        window = {"sliding_window": kind.window, "window_pattern": None}
        return self.model_copy(update={"layers": layers, "experts": experts, **window})

    @cached_property
    def attention_matrix_parameters(self) -> int:
        """Parameters of one layer's q, k, v and o."""
        return sum(self.attention_products.values()) + self.latent_parameters

    @cached_property
    def attention_products(self) -> dict[str, int]:
        """Parameters of one layer's q, k, v and o by the tensor that each makes (lcplan.strategy.remat)."""
        if self.latent is not None:
            return self.latent.products(self.d_model, self.heads)
        query, pair = self.d_model * self.heads * self.head_dim, self.d_model * self.kv_heads * self.head_dim
        return {"query": query, "key": pair, "value": pair, "attention_out": query}

    @property
    def latent_parameters(self) -> int:
        """Parameters of one layer's matrices that compress queries, keys and values; 0 without latent attention."""
        return self.latent.down_parameters(self.d_model) if self.latent else 0

    @property
    def attended_width(self) -> int:
        """Features of a token from which queries, keys and values are made after rows are gathered: D, or the compressed."""
        return self.latent.compressed(self.d_model) if self.latent else self.d_model

    @property
    def key_dim(self) -> int:
        """Features of a head's query and key: H, except with latent attention."""
        return self.latent.key_dim if self.latent else self.head_dim

    @property
    def value_dim(self) -> int:
        """Features of a head's value and output: H, except with latent attention."""
        return self.latent.value_dim if self.latent else self.head_dim

    @property
    def dense_matrix_parameters(self) -> int:
        """Parameters of gate (unless plain), up and down of a layer without experts."""
        return (self.up_matrices + 1) * self.d_model * self.d_ff

    @property
    def expert_matrix_parameters(self) -> int:
        """Parameters of gate, up and down of one routed expert; 0 without experts."""
        return (self.up_matrices + 1) * self.d_model * self.experts.d_ff if self.experts else 0

    @property
    def router_parameters(self) -> int:
        """Parameters of one layer's router, D E; 0 without experts."""
        return self.d_model * self.routed.count if self.routed else 0

    @property
    def shared_matrix_parameters(self) -> int:
        """Parameters of gate, up and down of the experts that every token meets, all together; 0 without them."""
        return (self.up_matrices + 1) * self.d_model * self.routed.shared_d_ff if self.routed else 0

    @cached_property
    def layer_matrix_parameters(self) -> int:
        """Parameters of one layer's matrices: q, k, v, o, gate (unless plain), up, down; or router and all its experts.

        Of a model with layers of several kinds, a layer with experts.
        """
        return self.attention_matrix_parameters + self._fed(self.routed.count if self.routed else 0)

    @cached_property
    def active_layer_matrix_parameters(self) -> int:
        """Parameters of one layer that one token meets."""
        return self.attention_matrix_parameters + self._fed(self.routed.active if self.routed else 0)

    def _fed(self, experts: int) -> int:
        """Matrices of a layer's feed-forward with this many of its experts."""
        if self.routed is None:
            return self.dense_matrix_parameters
        return experts * self.expert_matrix_parameters + self.router_parameters + self.shared_matrix_parameters

    @cached_property
    def layer_vector_parameters(self) -> int:
        """Parameters of one layer's vectors: two norms or four, biases, query and key norms, sinks."""
        return self._vectors(self.routed.count if self.routed else 0)

    def _vectors(self, experts: int) -> int:
        count = (4 if self.post_norms else 2) * self.d_model
        count += (self.heads + 2 * self.kv_heads) * self.head_dim * self.qkv_bias
        count += self.d_model * self.out_bias
        count += self.heads * self.attention_sinks
        count += self.latent.vector_parameters if self.latent else 0
        if self.routed is None:
            count += (self.up_matrices * self.d_ff + self.d_model) * self.mlp_bias
        else:
            count += experts * (self.up_matrices * self.routed.d_ff + self.d_model) * self.routed.bias
            count += self.routed.count * self.routed.router_bias + self.d_model * self.routed.shared_gate
        return count + 2 * self.head_dim * self.qk_norm

    @cached_property
    def matrix_parameters(self) -> int:
        """Parameters of all layers' matrices."""
        return sum(part.layers * part.layer_matrix_parameters for part in self.parts)

    @cached_property
    def active_matrix_parameters(self) -> int:
        """Parameters of all layers that one token meets."""
        return sum(part.layers * part.active_layer_matrix_parameters for part in self.parts)

    @cached_property
    def vector_parameters(self) -> int:
        """Parameters of all layers' vectors, and of the last norm."""
        return sum(part.layers * part.layer_vector_parameters for part in self.parts) + self.d_model

    @cached_property
    def embedding_parameters(self) -> int:
        """Parameters of the token embedding and, where it is not tied, the head."""
        return self.vocab * self.d_model * (1 if self.tied_embeddings else 2)

    @cached_property
    def parameters(self) -> int:
        """Exact parameter count."""
        return self.matrix_parameters + self.vector_parameters + self.embedding_parameters

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token meets: only its own experts; all in a dense model. Embedding tables count whole."""
        unmet = sum(part.layers * part.unmet_vector_parameters for part in self.parts)
        return self.active_matrix_parameters + self.vector_parameters - unmet + self.embedding_parameters

    @property
    def unmet_vector_parameters(self) -> int:
        """Parameters in one layer's vectors of experts to which a token is not sent."""
        return self.layer_vector_parameters - self._vectors(self.routed.active) if self.routed else 0
