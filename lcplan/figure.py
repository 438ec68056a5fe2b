"""Figure: a number with where it comes from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lcplan.frozen import Frozen

FigureKind = Literal["datasheet", "measured", "fitted", "user"]
"""``fitted``: derived from measurements that the source names. ``user``: a bare number in a user's own file."""


class Figure(Frozen):
    """A number with where it comes from. The field that holds it names its unit."""

    value: Annotated[float, Field(ge=0)]
    source: Annotated[str, Field(min_length=3)]
    kind: FigureKind
