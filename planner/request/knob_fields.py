"""Fields for every knob, so that no model that holds the values which a user gave has a list of knobs of its own."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, Field, create_model

from lcplan.strategy import KNOBS

Model = TypeVar("Model", bound=BaseModel)


def with_knobs(cls: type[Model]) -> type[Model]:
    """Give a model a field for each knob: the values that were given, in their order; empty where there are none."""
    fields: dict[str, Any] = {
        name: (tuple[int, ...] if knob.is_number else tuple[str, ...], ()) for name, knob in KNOBS.items()
    }
    for name, knob in KNOBS.items():
        if knob.aliases:
            fields[name] = (Annotated[fields[name][0], Field(validation_alias=AliasChoices(name, *knob.aliases))], ())
    made = create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **fields)
    made.__qualname__ = cls.__qualname__
    return made
