"""Experts: a mixture of experts in place of the feed-forward layer; and multi-head latent attention (DeepSeek)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lcplan.formats.frozen import Frozen

Width = Annotated[int, Field(gt=0, le=10**8)]


class Experts(Frozen):
    """E routed experts of width F in a layer, k of them per token, and the shared experts that every token meets."""

    count: Annotated[int, Field(gt=0, le=65536)]
    """E, routed experts of one layer."""
    active: Annotated[int, Field(gt=0, le=65536)]
    """k, experts that one token is sent to."""
    d_ff: Width
    """F of one routed expert."""
    normalized: bool = True
    """Whether the weights of a token's k experts are scaled to sum to one."""
    scores: Literal["softmax", "sigmoid"] = "softmax"
    """Normalization of the router's products, over all experts or for each one separately; an expert's weight is its score."""
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Last factor of all expert weights."""
    groups: Annotated[int, Field(gt=0, le=65536)] = 1
    """Groups of neighbouring experts; a token's experts are all of its best ``groups_chosen``."""
    groups_chosen: Annotated[int, Field(gt=0, le=65536)] = 1
    group_best: Literal[1, 2] = 1
    """A group is as good as its best expert, or as the sum of its best two."""
    shared_d_ff: Annotated[int, Field(ge=0, le=10**8)] = 0
    """Width of all experts together that every token meets."""
    shared_gate: bool = False
    """A sigmoid of one more product of the token weighs the output of the shared experts (Qwen2-MoE)."""
    first_dense: Annotated[int, Field(ge=0, le=4096)] = 0
    """Layers at the beginning that have the dense feed-forward of ``d_ff`` in place of experts."""
    every: Annotated[int, Field(gt=0, le=4096)] = 1
    """After those, every n-th layer has experts, the last of each n; the others are dense."""
    bias: bool = False
    """Biases of the experts' products."""
    router_bias: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.active > self.count:
            raise ValueError(f"active={self.active} is more than count={self.count} experts")
        if self.count % self.groups or self.groups_chosen > self.groups:
            raise ValueError(
                f"groups={self.groups} must divide count={self.count}, and groups_chosen={self.groups_chosen} be of them"
            )
        size = self.count // self.groups
        if self.active > self.groups_chosen * size or self.group_best > size:
            raise ValueError(
                f"groups_chosen={self.groups_chosen} groups of {size} experts: active={self.active} must be among them, and"
                f" group_best={self.group_best} at most {size}"
            )
        if self.shared_gate and not self.shared_d_ff:
            raise ValueError("shared_gate=true weighs shared experts, but shared_d_ff=0 gives the model no shared experts")
        return self

    def layers_of(self, layers: int) -> int:
        """How many of ``layers`` have experts.

        >>> Experts(count=8, active=1, d_ff=4, first_dense=1, every=2).layers_of(6)
        2
        """
        return max(0, layers - self.first_dense) // self.every

    def of(self, layer: int) -> bool:
        """Whether layer number ``layer``, counted from 0, has experts."""
        return layer >= self.first_dense and (layer - self.first_dense + 1) % self.every == 0


class LatentAttention(Frozen):
    """Multi-head latent attention: queries, and keys with values, each through a compressed vector with a norm of its own."""

    query_rank: Width | None = None
    """None: queries are not compressed."""
    kv_rank: Width
    nope_dim: Width
    """Features of a head's query and key without position."""
    rope_dim: Width
    """Features with RoPE; those of the key are one for all heads."""
    value_dim: Width

    @property
    def key_dim(self) -> int:
        """Features of a head's query, and of its key once expanded."""
        return self.nope_dim + self.rope_dim

    def compressed(self, d_model: int) -> int:
        """Features that queries, keys and values are expanded from, one token's."""
        return (self.query_rank or d_model) + self.kv_rank + self.rope_dim

    def down_parameters(self, d_model: int) -> int:
        """Parameters of one layer's matrices that compress."""
        return d_model * ((self.query_rank or 0) + self.kv_rank + self.rope_dim)

    def products(self, d_model: int, heads: int) -> dict[str, int]:
        """Parameters of one layer's expanding and output matrices, by the tensor that each makes (lcplan.strategy.remat)."""
        return {
            "query": (self.query_rank or d_model) * heads * self.key_dim,
            "key": self.kv_rank * heads * self.nope_dim,
            "value": self.kv_rank * heads * self.value_dim,
            "attention_out": heads * self.value_dim * d_model,
        }

    @property
    def vector_parameters(self) -> int:
        """Norms of the compressed vectors."""
        return (self.query_rank or 0) + self.kv_rank
