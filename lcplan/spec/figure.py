"""Figure: a number with where it comes from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lcplan.formats.frozen import Frozen

FigureKind = Literal["datasheet", "measured", "fitted", "stand-in", "user"]
"""``fitted``: derived from measurements that the source names. ``stand-in``: measured on another device, where this one has no
published figure. ``user``: a bare number in a user's own file."""


class Figure(Frozen):
    """A number with where it comes from. The field that holds it names its unit."""

    value: Annotated[float, Field(ge=0)]
    source: Annotated[str, Field(min_length=3)]
    kind: FigureKind


class Rated(Frozen):
    """A spec with rates and watts, by which the cost model divides."""

    @model_validator(mode="after")
    def _rates_are_above_zero(self) -> Self:
        rates = {name: getattr(self, name) for name in type(self).model_fields if name.endswith(("_per_s", "_w"))}
        low = [f"{name}={rate.value:g} is below 1" for name, rate in rates.items() if rate and rate.value < 1]
        if low:
            raise ValueError("; ".join(low))
        return self
