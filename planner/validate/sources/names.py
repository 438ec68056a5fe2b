"""Names as sources write them, by lcplan's own: models, precisions, schemes, remat policies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from types import MappingProxyType

from lcplan.strategy import SCHEMES
from lcplan.strategy.remat import REMAT_POLICIES, remat_name

SLIP = 0.9
"""Likeness above which unknown hardware is taken for a slip of the pen, and not for something that lcplan lacks, as a V100."""
REMAT_SLIP = 0.8
"""The same for a remat policy."""

_NARROW = re.compile(r"(?:fp|float|int|bit|e[45]m)[-_]?[4-8](?![0-9])|(?<![0-9])[48][-_]?bit|e4m3|e5m2|w[48]a[48]")
_HALF = re.compile(r"bf16|bfloat16|fp16|float16|half|amp|mixed")
_FULL = re.compile(r"fp32|float32|tf32|single")


def precision_of(text: str) -> str | None:
    """The precision, of the two that the cost model distinguishes: fp16 has the size and rate of bf16; below them None.

    Raises
    ------
    ValueError
        No precision that lcplan knows.

    >>> precision_of("BF16-mixed"), precision_of("fp16"), precision_of("tf32"), precision_of("bf16/fp8")
    ('bf16', 'bf16', 'fp32', None)
    """
    words = text.strip().lower()
    if _NARROW.search(words):
        return None
    for pattern, name in ((_HALF, "bf16"), (_FULL, "fp32")):
        if pattern.search(words):
            return name
    raise ValueError(f"lcplan does not know precision {text!r:.40}; write bf16, fp16 or fp32")


SCHEME_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        **{name: name for name in SCHEMES},
        **dict.fromkeys(("ring-attention", "ringattention", "ring-flash-attention"), "ring"),
        **dict.fromkeys(("striped", "striped-attention", "stripe", "zigzag", "zigzag-ring", "p2p"), "ring-zigzag"),
        **dict.fromkeys(("allgather", "kv-allgather", "kv-all-gather"), "all-gather"),
        **dict.fromkeys(("a2a", "deepspeed-ulysses", "ds-ulysses"), "ulysses"),
    }
)
"""Schemes by lcplan's own. Striped attention gives every rank the same causal work a step, as the zigzag ring does; Megatron's
``p2p`` is a zigzag ring and its ``a2a`` exchanges heads."""

REMAT_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        "minimal-with-context": "save-all",
        "minimal-flash": "save-all",
        "save-dot-with-context-except-mlp": "save-except-mlp",
        "save-out-proj": "save-out",
        "save-dot-except-mlp": "dots-except-mlp",
        "save-dot-except-mlpwi": "dots-except-mlp",
        "qkv-proj-offloaded": "offload-qkv-proj",
        "minimal-offloaded": "offload-dots",
        **dict.fromkeys(
            ("no", "off", "false", "disabled", "no-remat", "no-recompute", "no-recomputation", "no-ac"), "save-all"
        ),
        **dict.fromkeys(("yes", "on", "true", "full-remat", "full-recompute", "full-recomputation", "full-ac"), "full"),
        **dict.fromkeys(("activation-checkpointing", "gradient-checkpointing", "checkpointing", "recompute"), "full"),
    }
)
"""MaxText's names of policies by lcplan's (docs/step.md), and plain words; ``lcplan.strategy.remat`` has other spellings."""
SELECTIVE = frozenset(
    {"selective", "selective-recompute", "selective-recomputation", "selective-ac", "core-attn", "core-attention"}
)
"""Computes attention's scores again, which fused attention never keeps: there it is ``save-all``."""


def is_selective(remat: str | tuple[str, ...] | None) -> bool:
    """Whether a row states that attention's scores are computed again."""
    return isinstance(remat, str) and _dashed(remat) in SELECTIVE


def remat_of(text: str) -> str | None:
    """lcplan's name of a remat policy that a row states; None where lcplan has no such policy.

    >>> remat_of("Full"), remat_of("minimal_with_context"), remat_of("selective"), remat_of("every other layer")
    ('full', 'save-all', 'save-all', None)
    """
    name = "save-all" if is_selective(text) else _dashed(text)
    name = remat_name(name)
    return name if name in REMAT_POLICIES else REMAT_NAMES.get(name)


def _dashed(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())


_SUFFIX = re.compile(r"-(instruct|chat|hf|base|it|v0\.[0-9])$")


def is_slip(word: str, known: Iterable[str], *, likeness: float = SLIP) -> bool:
    """Whether an unknown name is so near a known one that its writer meant that.

    >>> is_slip("dgx-h1000", ["dgx-h100"]), is_slip("v100", ["h100"])
    (True, False)
    """
    return bool(get_close_matches(word.lower(), list(known), n=1, cutoff=likeness))


def scheme_of(text: str | None) -> str | None:
    """lcplan's name of a scheme that a row states; None where it states no scheme or lcplan does not have it.

    >>> scheme_of("P2P"), scheme_of("striped"), scheme_of("token-ring"), scheme_of(None)
    ('ring-zigzag', 'ring-zigzag', None, None)
    """
    return None if text is None else SCHEME_NAMES.get(_dashed(text))


MODEL_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        "llama7b": "llama2-7b",
        "llama13b": "llama2-13b",
        "llama1-7b": "llama2-7b",
        "llama1-13b": "llama2-13b",
        "mistral-7b": "mistral-7b-v0.1",
    }
)
"""Names of models that are another's to the last size: LLaMA's of 2023 by Llama 2's; Mistral 7B is its first version."""


def model_of(text: str) -> str:
    """The name that the catalogue would have for a model that Hugging Face or a paper calls so.

    >>> model_of("meta-llama/Meta-Llama-3.1-8B-Instruct"), model_of("Llama 2 7B"), model_of("mistralai/Mixtral-8x7B-v0.1")
    ('llama3.1-8b', 'llama2-7b', 'mixtral-8x7b')
    """
    name = _dashed(text).rsplit("/", 1)[-1].removeprefix("meta-")
    while _SUFFIX.search(name):
        name = _SUFFIX.sub("", name)
    name = re.sub(r"^llama-(?=[0-9])", "llama", name)
    return MODEL_NAMES.get(name, name)
