"""Remat policies by name: which named tensors of a layer the forward pass keeps for the backward pass, and where.

``strategies`` gives these names with ``checkpoint_name`` and ``cost_models`` sizes them, so the program and its price read
one table. ``layer_in``, the residual stream entering a layer, is always kept: it is the scan's carry. Offloaded tensors
wait in the host's memory. Several sets are MaxText's, under names of our own (planner/trainers/maxtext/export.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

Count = TypeVar("Count")
"""A whole number, or an array of them: this package knows no arrays."""

RematName = Literal[
    "full",
    "save-attention",
    "save-qkv",
    "save-except-mlp",
    "save-all",
    "save-out",
    "save-qkv-proj",
    "dots-except-mlp",
    "save-dots",
    "offload-layer-in",
    "offload-attention",
    "offload-qkv-proj",
    "offload-dots",
]

OFFLOAD_PERCENT = 100
"""Share of a model's layers whose tensors an offloading policy sends to the host by default: all."""

LAYER_IN = "layer_in"
"""The residual stream entering a layer, B T/tensor D, which every policy keeps."""

NAMED_TENSORS: tuple[str, ...] = (
    "query",  # after RoPE, B T N/tensor H
    "key",  # after RoPE, B T K/tensor H
    "value",  # B T K/tensor H
    "attention_output",  # of the kernel, B T N/tensor H
    "lse",  # log-sum-exp of the scores, fp32, B N/tensor T
    "attention_out",  # residual stream after attention, B T/tensor D
    "gate",  # B T F/tensor, before the activation; with experts R F/tensor, R the rows of the expert rank
    "up",  # B T F/tensor; with experts R F/tensor
    "dispatched",  # with experts alone: rows as they came to the expert rank, R D
)

_ATTENTION = ("attention_output", "lse")
_PROJECTED = ("query", "key", "value")
_PRODUCTS = (*_PROJECTED, "attention_out", "gate", "up")


@dataclass(frozen=True)
class RematPolicy:
    """The tensors of a layer saved for the backward pass: ``kept`` on the device, ``offloaded`` to the host's memory."""

    kept: tuple[str, ...] = ()
    offloaded: tuple[str, ...] = ()
    """May hold ``LAYER_IN``, which stays on the device otherwise."""

    @property
    def on_device(self) -> RematPolicy:
        """The same tensors saved, all of them on the device: the policy of the layers that a share of offloading leaves out."""
        return RematPolicy(self.saved)

    @property
    def saved(self) -> tuple[str, ...]:
        """Named tensors that are not computed again, wherever they wait."""
        return (*self.kept, *(name for name in self.offloaded if name != LAYER_IN))


REMAT_POLICIES: MappingProxyType[str, RematPolicy] = MappingProxyType(
    {
        "full": RematPolicy(),
        "save-attention": RematPolicy(_ATTENTION),
        "save-qkv": RematPolicy((*_PROJECTED, *_ATTENTION)),
        "save-except-mlp": RematPolicy((*_PROJECTED, *_ATTENTION, "attention_out")),
        "save-all": RematPolicy(NAMED_TENSORS),
        "save-out": RematPolicy(("attention_out",)),
        "save-qkv-proj": RematPolicy(_PROJECTED),
        "dots-except-mlp": RematPolicy((*_PROJECTED, "attention_out")),
        "save-dots": RematPolicy(_PRODUCTS),
        "offload-layer-in": RematPolicy(offloaded=(LAYER_IN,)),
        "offload-attention": RematPolicy(offloaded=(LAYER_IN, *_ATTENTION)),
        "offload-qkv-proj": RematPolicy(offloaded=_PROJECTED),
        "offload-dots": RematPolicy(offloaded=_PRODUCTS),
    }
)


def offloading_iterations(repeats: int, percent: Count) -> Count:
    """Number of iterations of the layer loop that offload, from the first: ``percent`` of them, rounded up.

    >>> [offloading_iterations(32, 50), offloading_iterations(3, 50), offloading_iterations(32, 100)]
    [16, 2, 32]
    """
    share: Any = percent
    return -(-repeats * share // 100)


GRID_POLICIES: tuple[str, ...] = (
    "full",
    "save-attention",
    "save-qkv",
    "save-except-mlp",
    "save-all",
    "offload-layer-in",
    "offload-attention",
)
"""Policies that a search tries without a filter. Policies that keep products and repeat attention save little time for
their memory at long sequences; policies that offload products move more bytes than any link to a host can hide."""

REMAT_ALIASES: MappingProxyType[str, RematName] = MappingProxyType(
    {"none": "save-all", "dots": "save-dots", "minimal": "save-dots"}
)
"""Other spellings that people may write. ``minimal`` is MaxText's and has MaxText's meaning; ``none`` and ``dots`` are earlier
names of lcplan. MaxText's ``none`` is no policy of lcplan's: with its layers in a scan it saves nothing (``full``)."""

STORED_NAMES: MappingProxyType[str, RematName] = MappingProxyType({**REMAT_ALIASES, "minimal": "save-except-mlp"})
"""Names that lcplan wrote into plans, results and tables of schema_version 1, whose ``minimal`` is not MaxText's."""

TENSOR_ALIASES: MappingProxyType[str, str] = MappingProxyType({"context": "attention_output"})
"""Earlier names of tensors: context is an axis."""


def remat_name(text: Any) -> Any:
    """The policy that a spelling means; the value itself if it is not an alias.

    >>> remat_name("none"), remat_name("minimal"), remat_name("full")
    ('save-all', 'save-dots', 'full')
    """
    return REMAT_ALIASES.get(text, text) if isinstance(text, str) else text


def tensor_name(text: str) -> str:
    """The named tensor that a spelling means.

    >>> tensor_name("context"), tensor_name("lse")
    ('attention_output', 'lse')
    """
    return TENSOR_ALIASES.get(text, text)


def of_stored(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """A strategy's values from a file of schema_version 1, under the current names of remat policies.

    >>> of_stored({"scheme": "ring", "remat": "minimal"})
    {'scheme': 'ring', 'remat': 'save-except-mlp'}
    """
    remat = strategy.get("remat")
    return {**strategy, "remat": STORED_NAMES[remat]} if isinstance(remat, str) and remat in STORED_NAMES else dict(strategy)


assert set(REMAT_POLICIES) == set(get_args(RematName))
assert not REMAT_POLICIES.keys() & REMAT_ALIASES.keys()
