"""How Megatron's arguments ask for kernels: overlap with communication, CUDA graphs, dropout, a deterministic backward pass."""

from __future__ import annotations

from typing import Any

from planner.trainers.megatron.arguments import Arguments, real

RINGS = ("ag", "rs")
"""The two parts of the forward pass: gathers before products, scatters behind them."""
DROPOUT = 0.1
"""Default of ``--hidden-dropout`` (core/transformer/transformer_config.py)."""
WHOLE_GRAPHS = ("full", "full_iteration")
"""Values of ``--cuda-graph-scope`` that capture whole layers, as an empty list does."""
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


def kernels_of(arguments: Arguments, *, file: str) -> tuple[dict[str, Any], list[str]]:
    """Return changes of the priced program, and notes: dropout, CUDA graphs, determinism.

    Raises
    ------
    BadInputError
        A rate of dropout that is no number.
    """
    rate = real(arguments, "hidden-dropout", default=DROPOUT, file=file)
    notes = []
    if rate > 0 and "hidden-dropout" not in arguments:
        notes.append(f"--hidden-dropout is Megatron's default, {DROPOUT:g}: its masks are priced; 0 leaves them out")
    graphs, partly = _graphs(arguments)
    changes: dict[str, Any] = {"dropout": rate > 0, "deterministic": "deterministic-mode" in arguments}
    return changes | ({"dispatch": "graphs"} if graphs else {}), notes + partly


def _graphs(arguments: Arguments) -> tuple[bool, list[str]]:
    """Whether whole layers are launched as CUDA graphs; and a note where only some of their modules are."""
    kind = (arguments.get("cuda-graph-impl") or ["none"])[0]
    if kind == "none" and not {"enable-cuda-graph", "external-cuda-graph"} & arguments.keys():
        return False, []
    modules = [*arguments.get("cuda-graph-modules", []), *arguments.get("cuda-graph-scope", [])]
    if [module for module in modules if module not in WHOLE_GRAPHS]:
        return False, [f"CUDA graphs of {', '.join(modules)} only: launches are priced as without graphs"]
    return True, []


def _off(arguments: Arguments, *parts: str) -> bool:
    return any(f"{word}-tp-comm-{part}" in arguments for part in parts for word in ("disable", "no"))
