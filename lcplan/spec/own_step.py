"""A train step of one's own: the axes and knobs that its file declares, and one strategy of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from lcplan.formats.frozen import Frozen

KnobValue = bool | int | float | str | None
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60)]
MESH = "mesh"
"""Key of the mesh in a strategy's document, which no axis and no knob can have."""
MOST_VALUES = 1000
"""Values of one knob."""


class StepSpace(Frozen):
    """The declaration of a step file: its literal ``LCPLAN``."""

    axes: Annotated[dict[Name, str], Field(min_length=1, max_length=8)]
    """Mesh axes by name, outermost first, each with the dimension that it splits, in words."""
    knobs: dict[Name, Annotated[tuple[KnobValue, ...], Field(min_length=1, max_length=MOST_VALUES)]] = {}
    """Values of each knob, from the fastest to the one that needs the least memory."""
    rules: dict[str, str] = {}
    """Conditions on axes, knobs and workload that a strategy keeps, each with the reason: ``{"8 % model == 0": "8 heads"}``."""
    tokens: str | int | None = None
    """Tokens of one step: a number, or an expression; None: ``seq_len * global_batch`` where both are known."""
    workload: dict[Name, int] = {}
    """Numbers that ``build`` reads from ``workload``, with their defaults; ``--seq`` and ``--global-batch`` replace two."""

    @model_validator(mode="after")
    def _names_differ(self) -> StepSpace:
        names = [*self.axes, *self.knobs, *self.workload, MESH, "devices"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{', '.join(twice)}: an axis, a knob and a number of the workload need different names, other than"
                f" {MESH} and devices"
            )
        return self


class StepStrategy(Frozen):
    """One layout of a step of one's own: mesh axes, outermost first, and knobs."""

    mesh: dict[Name, Annotated[int, Field(gt=0)]]
    knobs: dict[Name, KnobValue] = {}

    def __hash__(self) -> int:
        """Hash the axes and knobs in their order."""
        return hash((tuple(self.mesh.items()), tuple(self.knobs.items())))

    @field_validator("knobs")
    @classmethod
    def _no_mesh(cls, knobs: dict[str, KnobValue]) -> dict[str, KnobValue]:
        if MESH in knobs:
            raise ValueError(f"a knob cannot be called {MESH}")
        return knobs

    @property
    def devices(self) -> int:
        """Devices that the mesh takes."""
        return prod(self.mesh.values())

    @property
    def label(self) -> str:
        """``data=4,model=2 remat=full``: the axes above one, and all knobs."""
        return " ".join((self.mesh_label, *(f"{name}={value}" for name, value in self.knobs.items())))

    @property
    def mesh_label(self) -> str:
        """The axes above one."""
        return ",".join(f"{name}={size}" for name, size in self.mesh.items() if size > 1) or "one device"

    @property
    def argument(self) -> dict[str, Any]:
        """The ``strategy`` that ``build(mesh, strategy, workload)`` takes: ``{"mesh": {axis: size}, knob: value}``."""
        return {MESH: dict(self.mesh), **self.knobs}

    @classmethod
    def of_argument(cls, argument: Mapping[str, Any]) -> StepStrategy:
        """The strategy of such a document; ``devices`` is ignored.

        Raises
        ------
        KeyError, ValueError
            It has no mesh, or other values than names and numbers.
        """
        knobs = {name: value for name, value in argument.items() if name not in (MESH, "devices")}
        return cls.model_validate({"mesh": argument[MESH], "knobs": knobs})
