"""The sharding of an array in the notation of the documentation: ``B/data D/(fsdp,tensor)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Self

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.nearest import near_divisors
from lcplan.formats.suggest import hint
from lcplan.strategy import AXES, AxisName, Mesh

_DIM = re.compile(r"([A-Z])(?:/\(([\w,]+)\)|/(\w+))?$")


class Placed(Frozen):
    """The dims of an array, and the mesh axes that split each.

    >>> str(Placed.parse("B/data D/(fsdp,tensor)"))
    'B/data D/(fsdp,tensor)'
    """

    dims: tuple[str, ...]
    axes: tuple[tuple[AxisName, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the notation.

        Raises
        ------
        BadInputError
            A word is no dim, an axis is unknown, or an axis splits two dims.
        """
        words = text.split()
        found = [_DIM.match(word) for word in words]
        wrong = [word for word, match in zip(words, found, strict=True) if match is None]
        if wrong or not words:
            raise BadInputError(f"--sharding: {wrong[0] if wrong else text!r} is no dim; write B/data D/(fsdp,tensor) F")
        axes = [tuple(name for name in (match[2] or match[3] or "").split(",") if name) for match in found if match]
        used = [name for names in axes for name in names]
        problems = [f"--sharding: unknown axis {name!r}{hint(name, AXES)}" for name in used if name not in AXES]
        problems += [f"--sharding: {name} splits two dims of {text!r}; use each axis once" for name in _twice(used)]
        if problems:
            raise BadInputError(problems)
        return cls.model_validate({"dims": tuple(match[1] for match in found if match), "axes": tuple(axes)})

    def over(self, dim: str) -> tuple[AxisName, ...]:
        """Return the axes that split ``dim``."""
        return self.axes[self.dims.index(dim)]

    def dim_over(self, axis: AxisName) -> str | None:
        """Return the dim that ``axis`` splits; None if it splits no dim."""
        return next((dim for dim, axes in zip(self.dims, self.axes, strict=True) if axis in axes), None)

    def local(self, sizes: Mapping[str, int], mesh: Mesh) -> tuple[int, ...]:
        """Return the shape on one device [elements per dim]."""
        return tuple(sizes[dim] // ranks(axes, mesh) for dim, axes in zip(self.dims, self.axes, strict=True))

    def problems(self, sizes: Mapping[str, int], mesh: Mesh) -> list[str]:
        """Return a line for each dim that its axes do not divide."""
        return [
            f"--mesh: {' x '.join(axes)} = {ranks(axes, mesh)} does not divide {dim}={sizes[dim]}; "
            f"use {near_divisors(sizes[dim], ranks(axes, mesh))}"
            for dim, axes in zip(self.dims, self.axes, strict=True)
            if sizes[dim] % ranks(axes, mesh)
        ]

    def __str__(self) -> str:
        """Write the notation."""
        return " ".join(dim + _split(axes) for dim, axes in zip(self.dims, self.axes, strict=True))


def ranks(axes: tuple[AxisName, ...], mesh: Mesh) -> int:
    """Return the number of ranks over ``axes`` together."""
    return prod(getattr(mesh, axis) for axis in axes)


def _split(axes: tuple[AxisName, ...]) -> str:
    return "" if not axes else f"/{axes[0]}" if len(axes) == 1 else f"/({','.join(axes)})"


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
