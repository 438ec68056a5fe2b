"""Fields for every knob, so that no model that holds the values which a user gave has a list of knobs of its own."""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, create_model

from lcplan.strategy import KNOBS, Knob

Model = TypeVar("Model", bound=BaseModel)


def _names(knob: Knob) -> Any:
    """The type of several named values, which other spellings of them become."""
    one = Annotated[str, BeforeValidator(lambda value: knob.value(value) if isinstance(value, str) else value)]
    return GenericAlias(tuple, (one, ...))


def with_knobs(cls: type[Model]) -> type[Model]:
    """Give a model a field for each knob: the given values in their order; empty where no value is given."""
    fields: dict[str, Any] = {name: (tuple[int, ...] if knob.is_number else _names(knob), ()) for name, knob in KNOBS.items()}
    for name, knob in KNOBS.items():
        if knob.aliases:
            fields[name] = (Annotated[fields[name][0], Field(validation_alias=AliasChoices(name, *knob.aliases))], ())
    made = create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **fields)
    made.__qualname__ = cls.__qualname__
    return made
