"""The mixture of experts of Megatron arguments: its sizes, its dispatch, and the ranks that hold it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.text import whole_in
from lcplan.spec.experts import Experts
from planner.trainers.megatron.arguments import Arguments, numbers, real

MOST_LAYERS = 4096
DISPATCHERS = ("alltoall", "allgather", "flex")
DROPLESS = (
    "experts drop no row: buffers are priced for --moe-capacity-percent of a balanced load, 200 if not given; Megatron's grow "
    "with the rows that arrive"
)


def experts_of(arguments: Arguments, *, layers: int, width: int, file: str) -> dict[str, Any] | None:
    """Return the fields of lcplan's ``Experts``; None for a dense model.

    Raises
    ------
    BadInputError
        A value that Megatron does not have, or a pattern of layers that lcplan does not have.
    """
    number = numbers(arguments, file)
    count = number("num-experts", None)
    if count is None:
        return None
    scores = (arguments.get("moe-router-score-function") or ["softmax"])[0]
    active, chosen = number("moe-router-topk", 2) or 2, number("moe-router-group-topk", 1) or 1
    first, every = _layers_with_experts((arguments.get("moe-layer-freq") or ["1"])[0], layers, file=file)
    found: dict[str, Any] = {
        "count": count,
        "active": active,
        "d_ff": number("moe-ffn-hidden-size", width),
        "normalized": scores == "sigmoid" or "moe-router-pre-softmax" not in arguments,
        "scores": scores,
        "scale": real(arguments, "moe-router-topk-scaling-factor", default=1.0, file=file),
        "shared_d_ff": number("moe-shared-expert-intermediate-size", None) or 0,
        "shared_gate": "moe-shared-expert-gate" in arguments,
        "first_dense": first,
        "every": every,
        "bias": "disable-bias-linear" not in arguments,
    }
    groups = number("moe-router-num-groups", 1) or 1
    if groups > 1:
        found |= {"groups": groups, "groups_chosen": chosen, "group_best": min(2, max(1, active // chosen))}
    return found


def dispatch_of(arguments: Arguments, *, file: str) -> tuple[dict[str, Any], list[str]]:
    """Return the options of the dispatch, and notes on it.

    Raises
    ------
    BadInputError
        A dispatcher that Megatron does not have, or a capacity factor that is no number.
    """
    if "num-experts" not in arguments:
        return {}, []
    kind = (arguments.get("moe-token-dispatcher-type") or ["allgather"])[0]
    if kind not in DISPATCHERS:
        raise BadInputError(f"{file}: --moe-token-dispatcher-type {kind!r}; Megatron has {', '.join(DISPATCHERS)}")
    factor = real(arguments, "moe-expert-capacity-factor", default=-1.0, file=file)
    if factor > 0:
        padded = "moe-pad-expert-input-to-capacity" in arguments
        notes = [] if padded else ["--moe-expert-capacity-factor without padding: priced as padded to the capacity"]
        return {"moe_dispatch": ("capacity",), "moe_capacity_percent": (max(1, round(100 * factor)),)}, notes
    dispatch = ("gather",) if kind == "allgather" else ("dropless",)
    rank = real(arguments, "moe-expert-rank-capacity-factor", default=-1.0, file=file)
    if rank > 0:
        return {"moe_dispatch": dispatch, "moe_capacity_percent": (max(1, round(100 * rank)),)}, []
    return {"moe_dispatch": dispatch}, [DROPLESS]


def _layers_with_experts(text: str, layers: int, *, file: str) -> tuple[int, int]:
    """Return ``first_dense`` and ``every`` of ``--moe-layer-freq``.

    A number n means the first of every n layers (``get_moe_layer_pattern``); a list has one entry per layer.
    """
    if (period := whole_in(text)) is not None:
        pattern = [int(layer % max(1, period) == 0) for layer in range(layers)]
    else:
        pattern = list(_pattern(text, file=file))
    if 1 in pattern and len(pattern) == layers:
        start = pattern.index(1)
        for every in range(1, start + 2):
            experts = Experts(count=1, active=1, d_ff=1, first_dense=start + 1 - every, every=every)
            if [int(experts.of(layer)) for layer in range(layers)] == pattern:
                return experts.first_dense, every
    raise BadInputError(
        f"{file}: --moe-layer-freq {text:.60}: of {layers} layers lcplan has the first ones dense, and then the last of each n "
        "with experts"
    )


def _pattern(text: str, *, file: str) -> Iterable[int]:
    """The list that a sum of multiples of lists makes, ``([0]*3+[1]*58)``, read as syntax."""
    try:
        found = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        found = 0
    if not isinstance(found, list):
        raise BadInputError(f"{file}: --moe-layer-freq {text!r:.60} is neither a number nor a list of 0 and 1 per layer")
    return found


def _value(node: ast.expr) -> list[int] | int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.List):
        return [item for item in map(_value, node.elts) if isinstance(item, int)]
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int) and right <= MOST_LAYERS:
            return left * right
    raise ValueError("not a sum of multiples of lists")
