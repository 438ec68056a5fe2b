"""Remat policies by name: which named tensors of a layer the forward pass keeps for the backward pass.

The names are those that ``strategies`` gives with ``checkpoint_name`` and that ``cost_models`` sizes, so the program and
the law read one table. ``layer_in`` (the residual stream entering a layer) is always kept: it is the scan's carry.
Policy names follow MaxText's ``remat_policy`` where it has one that saves the same set.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal, get_args

RematName = Literal["full", "save-attention", "save-qkv", "minimal", "none"]

NAMED_TENSORS: tuple[str, ...] = (
    "query",  # after RoPE, B T N/tensor H
    "key",  # after RoPE, B T K/tensor H
    "value",  # B T K/tensor H
    "context",  # attention output, B T N/tensor H
    "lse",  # log-sum-exp of the scores, fp32, B N/tensor T
    "attention_out",  # residual stream after attention, B T/tensor D
    "gate",  # B T F/tensor, before the activation
    "up",  # B T F/tensor
)

REMAT_POLICIES: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "full": (),
        "save-attention": ("context", "lse"),
        "save-qkv": ("query", "key", "value", "context", "lse"),
        "minimal": ("query", "key", "value", "context", "lse", "attention_out"),
        "none": NAMED_TENSORS,
    }
)

assert set(REMAT_POLICIES) == set(get_args(RematName))
