"""Names as sources write them, by lcplan's own: models, hardware, precisions, schemes, remat policies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from types import MappingProxyType

from lcplan.catalog import tpu
from lcplan.strategy import SCHEMES

SLIP = 0.9
"""Likeness above which unknown hardware is taken for a slip of the pen, and not for something that lcplan lacks, as an H20."""
REMAT_SLIP = 0.8
"""The same for a remat policy."""

PRECISIONS: MappingProxyType[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bf16", "bfloat16", "bf16-mixed", "fp16", "float16", "half"), "bf16"),
        **dict.fromkeys(("fp32", "float32", "tf32"), "fp32"),
    }
)
"""Precisions by the two that the laws tell apart: fp16 has the size and the rate of bf16."""

SCHEME_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        **{name: name for name in SCHEMES},
        **dict.fromkeys(("striped", "stripe", "zigzag", "zigzag-ring", "p2p"), "ring-zigzag"),
        **dict.fromkeys(("allgather", "all_gather"), "all-gather"),
        "a2a": "ulysses",
    }
)
"""Schemes by lcplan's own. Striped attention gives every rank the same causal work a step, as the zigzag ring does; Megatron's
``p2p`` is a zigzag ring and its ``a2a`` exchanges heads."""

REMAT_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        "minimal_with_context": "none",
        "minimal_flash": "none",
        "save_dot_with_context_except_mlp": "minimal",
        "save_out_proj": "save-out",
        "save_qkv_proj": "save-qkv-proj",
        "save_dot_except_mlp": "dots-except-mlp",
        "save_dot_except_mlpwi": "dots-except-mlp",
        "qkv_proj_offloaded": "offload-qkv-proj",
        "minimal_offloaded": "offload-dots",
    }
)
"""MaxText's names of policies by lcplan's (docs/step.md); ``full`` is one in both, ``minimal`` is lcplan's own."""

_GPU = re.compile(r"(?<![a-z0-9])(?:[0-9]+x)?(gb300|gb200|b200|h200|h100|a100)(?![a-z0-9])")
_TPU = re.compile(r"(?<![a-z0-9])(?:tpu-?)?(v4|v5e|v5litepod|v5p|v6e|v7x|7x)(?:-([0-9]{1,7}))?(?![a-z0-9])")
_WORDS = (("trillium", "v6e"), ("ironwood", "7x"))
_SUFFIX = re.compile(r"-(instruct|chat|hf|base|it|v0\.[0-9])$")


def is_slip(word: str, known: Iterable[str], *, likeness: float = SLIP) -> bool:
    """Whether an unknown name is so near a known one that its writer meant that.

    >>> is_slip("dgx-h1000", ["dgx-h100"]), is_slip("v100", ["h100"])
    (True, False)
    """
    return bool(get_close_matches(word.lower(), list(known), n=1, cutoff=likeness))


def scheme_of(text: str | None) -> str | None:
    """lcplan's name of a scheme that a row states; None where it states none or lcplan has none.

    >>> scheme_of("P2P"), scheme_of("striped"), scheme_of("token-ring"), scheme_of(None)
    ('ring-zigzag', 'ring-zigzag', None, None)
    """
    return None if text is None else SCHEME_NAMES.get(text.lower())


def hardware_of(text: str, *, devices: int | None) -> str | None:
    """The catalogue's name of hardware that a source calls otherwise; None where it has none.

    >>> hardware_of("NVIDIA H100 80GB HBM3", devices=8), hardware_of("8xA100-SXM4-40GB", devices=8)
    ('h100', 'a100-40')
    >>> hardware_of("TPU v5p", devices=64), hardware_of("v5e-256", devices=None), hardware_of("H100 PCIe", devices=8)
    ('tpu-v5p-128', 'tpu-v5e-256', None)
    """
    words = re.sub(r"[\s_]+", "-", text.strip().lower())
    for word, generation in _WORDS:
        words = words.replace(word, generation)
    found = _TPU.search(words)
    if found is not None:
        family = "tpu-" + {"v5litepod": "v5e", "v7x": "7x"}.get(found[1], found[1])
        number = int(found[2]) if found[2] else _slice(family, devices)
        return None if number is None else f"{family}-{number}"
    gpu = _GPU.search(words)
    if gpu is None or "pcie" in words or re.search(r"nvl(?!72)", words):
        return None
    return f"{gpu[1]}-40" if gpu[1] == "a100" and re.search(r"(?<![0-9])40g", words) else gpu[1]


def _slice(family: str, devices: int | None) -> int | None:
    """The accelerator type's number of a slice of so many devices."""
    if devices is None:
        return None
    read = tpu.read_family(family)
    return devices // read.devices_per_chip * read.cores_per_chip


def model_of(text: str) -> str:
    """The name that the catalogue would have for a model that Hugging Face or a paper calls so.

    >>> model_of("meta-llama/Meta-Llama-3.1-8B-Instruct"), model_of("Llama 2 7B"), model_of("mistralai/Mixtral-8x7B-v0.1")
    ('llama3.1-8b', 'llama2-7b', 'mixtral-8x7b')
    """
    name = re.sub(r"[\s_]+", "-", text.strip().lower()).rsplit("/", 1)[-1].removeprefix("meta-")
    while _SUFFIX.search(name):
        name = _SUFFIX.sub("", name)
    return re.sub(r"^llama-(?=[0-9])", "llama", name)
