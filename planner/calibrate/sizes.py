"""The probes of each kind of device: shapes of a step's own operations, sized for one to three minutes in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import HOST_ATTENTION_BLOCK

Probe = dict[str, Any]
OPS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")


@dataclass(frozen=True)
class Sizes:
    """Products (rows, inner, columns), attention chunks, and message sizes of one kind of device."""

    dtype: str
    kernel: str
    products: tuple[tuple[int, int, int], ...]
    chunks: tuple[int, ...]
    heads: tuple[int, int, int]
    """Query heads, KV heads, features of a head."""
    copy_bytes: int
    messages: tuple[int, ...]
    block: int = 0
    """Tiles of attention, as the grid has them."""


_LLAMA = ((8192, 4096, 6144), (8192, 4096, 4096), (8192, 4096, 28672), (8192, 14336, 4096), (2048, 4096, 16032))
"""Llama 3 8B: query, key and value; output; gate and up; down; a loss chunk of an eighth of the vocabulary."""
_CHIP = Sizes("bfloat16", "cudnn", _LLAMA, (2048, 4096, 8192, 16384), (32, 8, 128), 2**30, (2**16, 2**20, 2**24, 2**28))
SIZES = {
    "gpu": _CHIP,
    "tpu": Sizes("bfloat16", "splash", _LLAMA, _CHIP.chunks, _CHIP.heads, 2**29, _CHIP.messages),
    "cpu": Sizes(
        dtype="float32",
        kernel="blockwise",
        products=((1024, 256, 768), (1024, 768, 256), (1024, 256, 2048), (512, 1024, 1024)),
        chunks=(128, 256, 512),
        heads=(8, 4, 32),
        copy_bytes=2**25,
        messages=(2**14, 2**20),
        block=HOST_ATTENTION_BLOCK,
    ),
}
"""The host's are those of the tiny models that it can train, in fp32, since a host emulates bf16."""


def probes_of(hardware: HardwareSpec, devices: int) -> list[Probe]:
    """Every probe for ``devices`` devices of this kind at hand."""
    sizes = SIZES[hardware.kind]
    found: list[Probe] = [
        {"kind": "gemm", "rows": rows, "inner": inner, "columns": columns, "dtype": sizes.dtype}
        for rows, inner, columns in sizes.products
    ]
    found += [_attention(sizes, tokens, backward=backward) for backward in (False, True) for tokens in sizes.chunks]
    found.append({"kind": "copy", "size_bytes": sizes.copy_bytes})
    if hardware.kind != "cpu":  # a host's memory is its devices' memory: nothing crosses a link
        found.append({"kind": "host", "size_bytes": sizes.copy_bytes})
    groups = sorted({2, devices} if devices % 2 == 0 else {devices} if devices > 1 else set())
    return found + [
        {"kind": "collective", "op": op, "size_bytes": size, "members": members}
        for op in OPS
        for members in groups
        for size in sizes.messages
    ]


def _attention(sizes: Sizes, tokens: int, *, backward: bool) -> Probe:
    heads, kv_heads, head_dim = sizes.heads
    return {
        "kind": "attention",
        "tokens": tokens,
        "heads": [heads, kv_heads, head_dim],
        "dtype": sizes.dtype,
        "kernel": sizes.kernel,
        "block": sizes.block,
        "backward": backward,
    }
