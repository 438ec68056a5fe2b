"""Attention kernels of an executable: the kernels of cuDNN and of jax's Pallas library, with their work."""

from __future__ import annotations

import re
from math import prod

from lcplan.evidence.execution import Kernel
from planner.measure.hlo.text import Computation, Instruction
from planner.measure.hlo.work import dims, main_bytes

BACKWARD_PRODUCTS = {"fwd": 2, "bwd": 5, "dkv": 4, "dq": 3}
"""Products of two matrices in a flash attention kernel. Forward: scores and values. Backward: scores again, cotangents of
values, weights, keys and queries (Dao, arXiv:2307.08691, section 3.2). Splash attention's two backward kernels, of keys and
values and of queries, each compute the scores and the weights' cotangent."""


def attention_kernel(place: Computation, call: Instruction) -> Kernel | None:
    """The attention kernel that an instruction is; None where it is another one.

    cuDNN's states its mask and the shape of its scores. Splash attention's shape is that of its operands; which scores its mask
    leaves out is data, so that those of causal training, half of them, are counted.
    """
    if call.opcode != "custom-call":
        return None
    if "__cudnn$fmha" in call.attributes:
        return _cudnn(place, call)
    if "splash" in call.attributes or "splash" in call.name or "flash_attention" in call.attributes:
        return _splash(place, call)
    return None


def _cudnn(place: Computation, call: Instruction) -> Kernel | None:
    found = re.search(r'"intermediate_tensor_shape":\s*\{[^\[]*"dimensions":\s*\[([^\]]*)\]', call.attributes)
    operand = place.instructions.get(call.operands[0]) if call.operands else None
    if found is None or operand is None:
        return None
    scores = [int(one) for one in re.findall(r"\d+", found[1])]
    head_dim = dims(operand.shape)[-1]
    backward = "Backward" in call.attributes.split("operand_layout")[0]
    window = re.search(r'"sliding_window_length":\s*"?(\d+)', call.attributes)
    keys = float(scores[-1])
    if '"CAUSAL"' in call.attributes or '"PADDING_CAUSAL"' in call.attributes:
        keys = keys / 2.0
    if window and 0 < int(window[1]) < keys:
        keys = float(window[1])
    made = Kernel(kind="attention", name="cuDNN attention", keys=keys, head_dim=head_dim, backward=backward)
    return _worked(place, call, made, rows=prod(scores[:-1]))


def _splash(place: Computation, call: Instruction) -> Kernel | None:
    """Operands of rank three or four that end in a head's features are queries and keys: heads, tokens, features."""
    arrays = [dims(one.shape) for name in call.operands if (one := place.instructions.get(name)) is not None]
    arrays = [shape for shape in arrays if len(shape) in (3, 4) and shape[-1] >= 32]
    if len(arrays) < 2:
        return None
    queries, keys = arrays[0], arrays[1]
    text = f"{call.name} {call.attributes[:4000]}".lower()
    which = next((name for name in ("dkv", "dq", "bwd") if name in text), "fwd")
    kernel = Kernel(
        kind="attention", name="splash attention", keys=keys[-2] / 2.0, head_dim=queries[-1], backward=which != "fwd"
    )
    made = _worked(place, call, kernel, rows=prod(queries[:-1]))
    forward = made.flop / (2.5 if made.backward else 1.0)
    return made.model_copy(update={"flop": forward * BACKWARD_PRODUCTS[which] / 2.0})


def _worked(place: Computation, call: Instruction, kernel: Kernel, *, rows: int) -> Kernel:
    """The kernel with its FLOP and traffic, for ``rows`` queries of all heads and sequences."""
    size = sum(main_bytes(one.shape) for word in call.operands if (one := place.instructions.get(word)) is not None)
    flop = 4.0 * rows * kernel.keys * kernel.head_dim * (2.5 if kernel.backward else 1.0)
    name = f"{kernel.name}, {'backward' if kernel.backward else 'forward'}"
    return kernel.model_copy(update={"flop": flop, "bytes": float(size + main_bytes(call.shape)), "name": name})
