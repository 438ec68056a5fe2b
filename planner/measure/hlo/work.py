"""The work of one instruction of an executable: FLOP of products, traffic of fusions and copies, read from shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from planner.measure.hlo.text import Computation, Instruction, Module, shape_bytes

_DIMS = re.compile(r"^\(?\s*([a-z][a-z0-9]*)\[([0-9,<= ]*)\]")
_LIST = r"\s*=\s*\{([\d,]*)\}"
_ELSEWHERE = re.compile(r"[a-z][a-z0-9]*\[[0-9,<= ]*\]\{[^}]*S\(\d+\)[^}]*\}")
"""An array in another memory than the device's main one (a TPU's vector memory, the host)."""
_SLICES = {"dynamic-slice", "slice", "gather"}
_FREE = {"bitcast", "reshape", "get-tuple-element"}


def dims(shape: str) -> tuple[int, ...]:
    """Sizes of an array, or of the first array of a tuple.

    >>> dims("bf16[16,128,8192]{2,1,0}")
    (16, 128, 8192)
    """
    match = _DIMS.match(shape)
    return tuple(int(size) for size in re.findall(r"\d+", match[2])) if match else ()


def element(shape: str) -> str:
    """Element type of an array, or of the first array of a tuple."""
    match = _DIMS.match(shape)
    return match[1] if match else ""


def main_bytes(shape: str) -> int:
    """Bytes of the arrays of a shape that are in the device's main memory."""
    return shape_bytes(_ELSEWHERE.sub("", shape))


def numbers(key: str, attributes: str) -> tuple[int, ...]:
    """A list of dimensions: ``lhs_contracting_dims={1}``, or ``"lhs_contracting_dimensions":["1"]`` of a backend's settings."""
    if match := re.search(key + _LIST, attributes):
        return tuple(int(one) for one in match[1].split(",") if one)
    match = re.search(rf'"{key.replace("_dims", "_dimensions")}":\[([^\]]*)\]', attributes)
    return tuple(int(one) for one in re.findall(r"\d+", match[1])) if match else ()


def product_flop(place: Computation, instruction: Instruction) -> tuple[float, str] | None:
    """FLOP of a product and the element type of its operands; None where the instruction is no product."""
    operands = [place.instructions[name] for name in instruction.operands if name in place.instructions]
    if len(operands) < 2:
        return None
    left, right = operands[0], operands[1]
    kind = min((element(left.shape), element(right.shape)), key=_width)
    if instruction.opcode in ("dot", "ragged-dot") or _is_gemm(instruction):
        inner = numbers("lhs_contracting_dims", instruction.attributes)
        sizes = dims(left.shape)
        if any(one >= len(sizes) for one in inner):
            return None
        return 2.0 * prod(dims(instruction.shape)) * prod(sizes[one] for one in inner), kind
    if instruction.opcode == "convolution":
        return _convolution_flop(left, right, instruction), kind
    return None


def _is_gemm(instruction: Instruction) -> bool:
    return instruction.opcode == "custom-call" and bool(
        re.search(r'custom_call_target="__(cublas|hipblas|onednn|triton_gemm)', instruction.attributes)
    )


def _width(name: str) -> int:
    bits = re.search(r"\d+", name)
    return int(bits[0]) if bits else 64


def _convolution_flop(left: Instruction, right: Instruction, made: Instruction) -> float:
    """FLOP of a convolution, which is also how XLA for TPUs writes products: padding and holes are not counted.

    ``2 x`` output elements without the spatial dims ``x`` input features ``x`` pairs of each spatial dim that are in the input.
    """
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", made.attributes)
    if labels is None:
        return 0.0
    lhs, rhs, out = labels[1], labels[2], labels[3]
    sizes, kernel, result = dims(left.shape), dims(right.shape), dims(made.shape)
    if (len(sizes), len(kernel), len(result)) != (len(lhs), len(rhs), len(out)):
        return 0.0
    outer = prod(size for size, label in zip(result, out, strict=True) if not label.isdigit())
    features = kernel[rhs.index("i")]
    pairs = 1
    spatial = sorted(label for label in rhs if label.isdigit())
    window = _window(made.attributes, len(spatial))
    for label, field in zip(spatial, window, strict=True):
        pairs *= _pairs(sizes[lhs.index(label)], kernel[rhs.index(label)], result[out.index(label)], field)
    return 2.0 * outer * features * pairs


def _window(attributes: str, count: int) -> list[dict[str, int]]:
    """Stride, padding and dilations of each spatial dim."""
    found = re.search(r"window=\{([^}]*)\}", attributes)
    fields: list[dict[str, int]] = [{"stride": 1, "pad": 0, "lhs_dilate": 1, "rhs_dilate": 1} for _ in range(count)]
    for word in found[1].split() if found else ():
        key, _, values = word.partition("=")
        if key in fields[0] if fields else False:
            for field, value in zip(fields, values.split("x"), strict=False):
                field[key] = int(value.split("_")[0])
    return fields


def _pairs(size: int, kernel: int, result: int, field: dict[str, int]) -> int:
    """Pairs of an output place and a kernel place that read an element of the input: no padding, no hole."""
    if kernel == 1 and field["pad"] == 0 and field["lhs_dilate"] == 1:
        return result
    span, dilate, total = (size - 1) * field["lhs_dilate"] + 1, field["lhs_dilate"], 0
    if kernel * result > 10**6:  # counted in full: at most a few thousandths too many at the edges
        return kernel * result if dilate == 1 else kernel * result // dilate
    for place in range(kernel):
        start = place * field["rhs_dilate"] - field["pad"]
        total += sum(1 for one in range(result) if 0 <= (at := one * field["stride"] + start) < span and at % dilate == 0)
    return total


def fused_products(module: Module, name: str) -> Iterator[tuple[float, str]]:
    """Products inside a fusion, and inside the fusions that it calls."""
    place = module.computations.get(name)
    for one in place.instructions.values() if place else ():
        found = product_flop(place, one) if place else None
        if found is not None:
            yield found
        elif one.opcode in ("fusion", "call") and (inner := one.attribute("calls") or one.attribute("to_apply")):
            yield from fused_products(module, inner)


def traffic(module: Module, place: Computation, instruction: Instruction) -> int:
    """Bytes that an instruction reads and writes in the device's main memory.

    Of an operand of which a fusion reads a slice only the slice counts; of a result that a fusion updates in place, the update.
    """
    inside = module.computations.get(instruction.attribute("calls") or "") if instruction.opcode == "fusion" else None
    if inside is None:
        return _plain_traffic(place, instruction)
    parameters = {int(one.literal): one for one in inside.instructions.values() if one.opcode == "parameter"}
    read = sum(
        _read(inside, parameters[index], outside=place.instructions[name].shape)
        for index, name in enumerate(instruction.operands)
        if index in parameters and name in place.instructions
    )
    return read + _written(inside, instruction)


def _plain_traffic(place: Computation, instruction: Instruction) -> int:
    operands = [place.instructions[name].shape for name in instruction.operands if name in place.instructions]
    if instruction.opcode in _SLICES:
        return 2 * main_bytes(instruction.shape)
    if instruction.opcode == "dynamic-update-slice":
        return 2 * main_bytes(operands[1]) if len(operands) > 1 else 0
    return main_bytes(instruction.shape) + sum(main_bytes(shape) for shape in operands)


def _read(inside: Computation, parameter: Instruction, *, outside: str) -> int:
    """Bytes of a parameter that a fusion reads; ``outside`` is the operand's shape with its memory."""
    whole = main_bytes(outside)
    if not whole:
        return 0
    users = _users(inside, parameter.name)
    if users and all(user.opcode in _SLICES and _is_first(inside, user, parameter.name) for user in users):
        return min(whole, sum(shape_bytes(user.shape) for user in users))
    if users and all(user.opcode == "dynamic-update-slice" and _is_first(inside, user, parameter.name) for user in users):
        return 0
    return whole


def _users(inside: Computation, name: str) -> list[Instruction]:
    """Instructions that use a value, through bitcasts."""
    found: list[Instruction] = []
    for one in inside.instructions.values():
        if name in one.operands:
            found += _users(inside, one.name) or [one] if one.opcode in _FREE else [one]
    return found


def _source(inside: Computation, name: str) -> str:
    """The value behind bitcasts."""
    one = inside.instructions.get(name)
    while one is not None and one.opcode in _FREE and one.operands:
        name = one.operands[0]
        one = inside.instructions.get(name)
    return name


def _is_first(inside: Computation, user: Instruction, name: str) -> bool:
    return bool(user.operands) and _source(inside, user.operands[0]) == name


def _written(inside: Computation, fusion: Instruction) -> int:
    """Bytes of a fusion's results; an update in place writes its update."""
    root = inside.instructions.get(inside.root or "")
    if root is None:
        return main_bytes(fusion.shape)
    parts = [inside.instructions.get(_source(inside, name)) for name in root.operands] if root.opcode == "tuple" else [root]
    ends = [inside.instructions.get(_source(inside, one.name)) if one is not None else None for one in parts]
    if not any(one is not None and one.opcode == "dynamic-update-slice" for one in ends):
        return main_bytes(fusion.shape)
    total = 0
    for one in ends:
        update = inside.instructions.get(one.operands[1]) if one is not None and one.opcode == "dynamic-update-slice" else one
        total += shape_bytes(update.shape) if update is not None else 0
    return total
