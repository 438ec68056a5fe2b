"""The overlap of tensor's communication with products that Megatron's arguments ask for."""

from __future__ import annotations

from typing import Any

from planner.trainers.megatron.arguments import Arguments

RINGS = ("ag", "rs")
"""The two parts of the forward pass: gathers before products, scatters behind them."""
BULKS = ("dgrad", "wgrad")
"""The two parts of the backward pass that move whole tensors during other products."""


def overlap_of(arguments: Arguments, tensor: int) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return options, changes of the priced program, and notes on ``--tp-comm-overlap``.

    It is the knob ``collective_matmul``. Where both parts of the forward pass are switched off, only the backward pass
    overlaps, which is a property of the program.
    """
    if "tp-comm-overlap" not in arguments or tensor == 1:
        return {}, {}, []
    rings = [part for part in RINGS if not _off(arguments, f"overlap-{part}", f"split-{part}")]
    bulks = [part for part in BULKS if not _off(arguments, f"bulk-{part}")]
    if len(rings) == len(RINGS):
        lost = [part for part in BULKS if part not in bulks]
        notes = [f"--tp-comm-overlap is priced with its bulk overlap of {' and '.join(lost)}"] if lost else []
        return {"collective_matmul": ("one-way",)}, {}, notes
    if bulks and not rings:
        return {}, {"stream": "backward-beside-products"}, []
    return {}, {}, [f"--tp-comm-overlap with only {', '.join([*rings, *bulks]) or 'nothing'} left is priced without overlap"]


def _off(arguments: Arguments, *parts: str) -> bool:
    return any(f"{word}-tp-comm-{part}" in arguments for part in parts for word in ("disable", "no"))
