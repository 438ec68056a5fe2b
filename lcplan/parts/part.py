"""Part: the smallest programs that a step is made of, each with its sizes and shardings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Self, get_args

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.nearest import near_divisors
from lcplan.parts.communication import Move, Product, moves
from lcplan.parts.placed import Placed, ranks
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import AxisName, Dtype, Mesh

PartKind = Literal["matmul", "ffn", "attention", "collective"]
PartOp = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute"]


class Kind(NamedTuple):
    """One kind of part."""

    dims: str
    """Its sizes, by letter."""
    sharding: str | None
    """Its arrays where ``--sharding`` is not given; None: the mesh decides them."""
    help: str


KINDS: Mapping[PartKind, Kind] = MappingProxyType(
    {
        "matmul": Kind("BDF", "B/data D/tensor, D F/tensor -> B/data F/tensor", "A[B D] W[D F] -> Out[B F]"),
        "ffn": Kind("BDF", "B/data D/tensor -> B/data D/tensor", "In[B D] W[D F/tensor], GELU, W[F/tensor D] -> Out[B D]"),
        "attention": Kind("BTNKH", None, "causal; B over data and fsdp, T over context by --scheme, heads over tensor"),
        "collective": Kind("BD", None, "--op on an operand of B x D elements, its larger side on one device"),
    }
)


class Part(Frozen):
    """One part. Forward only, as the published micro-benchmarks are."""

    kind: PartKind
    sizes: dict[str, int]
    arrays: tuple[Placed, ...] = ()
    op: PartOp | None = None
    axis: AxisName | None = None
    precision: Dtype = "bf16"

    @classmethod
    def of(cls, kind: PartKind, *, shape: str, sharding: str | None, mesh: Mesh, rest: Mapping[str, str | None]) -> Self:
        """Build a part from the texts of its options.

        Raises
        ------
        BadInputError
            Sizes are missing or not divided by the mesh, or the sharding is not one that the kind has.
        """
        made = cls.model_validate({"kind": kind, "sizes": _sizes(kind, shape), "arrays": _arrays(kind, sharding), **rest})
        problems = made.problems(mesh)
        if problems:
            raise BadInputError(problems)
        return made

    def products(self) -> tuple[tuple[Product, Mapping[str, int]], ...]:
        """Return each product with its sizes; the second one of a feed-forward has F as its inner dim."""
        if self.kind == "matmul":
            return ((Product(*self.arrays), self.sizes),)
        if self.kind != "ffn":
            return ()
        entering, leaving = self.arrays
        rows = tuple(axis for axis in entering.over("B") if axis != "tensor")
        hidden, up = _placed(B=rows, F=("tensor",)), _placed(D=(), F=("tensor",))
        inner = _placed(B=rows, D=("tensor",))
        result = _placed(B=leaving.over("B"), F=leaving.over("D"))
        swapped = {"B": self.sizes["B"], "D": self.sizes["F"], "F": self.sizes["D"]}
        second = Product(inner, _placed(D=("tensor",), F=()), result)
        return (Product(entering, up, hidden), self.sizes), (second, swapped)

    @property
    def model(self) -> ModelSpec:
        """A model with a layer of this attention, for programs and cost models that read sizes from a model.

        A part without heads gets a model of one head, whose sizes nothing reads.
        """
        N, K, H = (self.sizes.get(dim, least) for dim, least in (("N", 1), ("K", 1), ("H", 2)))
        return ModelSpec(name="part", layers=1, d_model=N * H, d_ff=N * H, heads=N, kv_heads=K, head_dim=H, vocab=N * H)

    @property
    def workload(self) -> Workload:
        """The sequences of this attention."""
        return Workload(seq_len=self.sizes.get("T", 1), global_batch=self.sizes["B"], precision=self.precision)

    def moves(self, mesh: Mesh) -> tuple[Move, ...]:
        """Return the collectives of all products."""
        return tuple(move for product, _ in self.products() for move in moves(product, mesh))

    def problems(self, mesh: Mesh) -> list[str]:
        """Return a line for each rule that the part breaks on ``mesh``."""
        if self.kind == "collective":
            return self._of_collective(mesh)
        if self.kind == "attention":
            return self._of_attention(mesh)
        pairs = [(placed, sizes) for product, sizes in self.products() for placed in product]
        found = [line for placed, sizes in pairs for line in placed.problems(sizes, mesh)]
        self.moves(mesh)
        return list(dict.fromkeys(found))

    def ring_problems(self, mesh: Mesh) -> list[str]:
        """Return a line where a collective matmul over tensor cannot cut the rows of an all-reduced product."""
        rows = [
            (placed, sizes["B"] // ranks(placed.over("B"), mesh))
            for (_, _, placed), sizes in self.products()
            if any(move.op == "all-reduce" and move.axis == "tensor" for move in self.moves(mesh))
        ]
        return [
            f"--collective-matmul: tensor={mesh.tensor} does not divide the {count} rows of a device; "
            f"use off, or {near_divisors(count, mesh.tensor)}"
            for _, count in rows
            if count % mesh.tensor
        ]

    def _of_collective(self, mesh: Mesh) -> list[str]:
        if self.op is None or self.axis is None:
            return [f"part collective needs --op, one of {', '.join(get_args(PartOp))}, and --axis, an axis of --mesh"]
        size = getattr(mesh, self.axis)
        if size == 1:
            return [f"--axis {self.axis}: its size is 1, so that no device takes part; name it in --mesh"]
        dim = {"all-gather": "B", "reduce-scatter": "B", "all-to-all": "D"}.get(self.op)
        if dim is None or self.sizes[dim] % size == 0:
            return []
        ways = near_divisors(self.sizes[dim], size)
        return [f"--axis {self.axis}: {size} does not divide {dim}={self.sizes[dim]}, which {self.op} splits; use {ways}"]

    def _of_attention(self, mesh: Mesh) -> list[str]:
        over = {"B": ("data", "fsdp"), "T": ("context",), "N": ("tensor",), "K": ("tensor",)}
        return _placed(**over).problems(self.sizes, mesh)

    @property
    def label(self) -> str:
        """Kind, sizes and shardings in one line."""
        sizes = " ".join(f"{dim}={size}" for dim, size in self.sizes.items())
        placed = ", ".join(str(one) for one in self.arrays[:-1]) + f" -> {self.arrays[-1]}" if self.arrays else ""
        op = f"{self.op} over {self.axis}" if self.op else ""
        return "; ".join(text for text in (f"{self.kind} {sizes} {self.precision}", placed, op) if text)


def _placed(**dims: tuple[AxisName, ...]) -> Placed:
    return Placed(dims=tuple(dims), axes=tuple(dims.values()))


def _sizes(kind: PartKind, shape: str) -> dict[str, int]:
    wanted, example = KINDS[kind].dims, ",".join(f"{dim}=1024" for dim in KINDS[kind].dims)
    found = dict(re.findall(r"([A-Z])=(\d+)", shape))
    rest = re.sub(r"[A-Z]=\d+", "", shape).replace(",", "").strip()
    if rest or set(found) != set(wanted) or not all(map(int, found.values())):
        raise BadInputError(f"--shape: {shape!r} are not the sizes of part {kind}; use {example}")
    return {dim: int(found[dim]) for dim in wanted}


def _arrays(kind: PartKind, sharding: str | None) -> tuple[Placed, ...]:
    default = KINDS[kind].sharding
    if default is None:
        if sharding is not None:
            raise BadInputError(f"--sharding: the mesh decides it for part {kind}; leave it out")
        return ()
    placed = tuple(Placed.parse(text) for text in re.split(r",(?![^(]*\))|->", sharding or default))
    wanted = tuple(Placed.parse(text).dims for text in re.split(r",|->", default))
    if tuple(one.dims for one in placed) != wanted:
        raise BadInputError(f"--sharding: {sharding!r} are not the arrays of part {kind}; use, for example, {default!r}")
    return placed
