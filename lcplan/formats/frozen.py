"""The base of every spec: frozen, extra fields are errors, all problems reported at once."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from reprlib import Repr
from typing import Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import NEAR, hint
from lcplan.formats.text import few

_SHORT = Repr()
"""Bounded in depth and length: a value of nested aliases would print as billions of items."""
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxstring = 2, 3, 4, 60


class Frozen(BaseModel):  # noqa: PLW1641 (pydantic makes __hash__ of a frozen model)
    """A frozen value. Unknown fields are errors; finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, without the cached properties of this value: they do not hold for the copy."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    def __eq__(self, other: object) -> bool:
        """Compare fields only: a cached property may refer to the value itself, and comparing it would not end."""
        same = type(self) is type(other)
        return same and all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        """Validate the plain values of a file called ``where``: strictly, so that ``true`` and ``"8"`` are no numbers.

        Raises
        ------
        BadInputError
            With one line for each of the first problems: the key, the fault and the value.
        """
        if not isinstance(data, dict):
            raise BadInputError(f"{where}: a mapping of keys to values was expected, this is {_plain_name(data)}")
        try:
            return cls.model_validate_json(json.dumps(data, default=_plain), strict=True)
        except ValidationError as error:
            unknown_first = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
            raise BadInputError(few(unknown_first, lambda problem: _line(cls, problem, where=where))) from None
        except (TypeError, ValueError) as error:  # keys that are no text, values that contain themselves
            raise BadInputError(f"{where}: not plain values: {error}") from None


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _plain_name(data: Any) -> str:
    names = {list: "a list", str: "text", type(None): "empty", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(data), type(data).__name__)


def _line(cls: type[BaseModel], problem: Any, *, where: str) -> str:
    loc = problem["loc"]
    key = ".".join(str(part) for part in loc)
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown key {key!r}{_way_out(cls, str(loc[-1]), path=loc[:-1])}"
    if problem["type"] == "missing":
        return f"{where}: missing key {key!r}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    before = f"{where}: {key}: " if key else f"{where}: "
    if problem["type"] == "value_error":
        return before + message
    return f"{before}{message} (got {_SHORT.repr(problem.get('input'))})"


def _way_out(cls: type[BaseModel], word: str, *, path: tuple[str | int, ...]) -> str:
    """Near names among the keys next to the unknown one, else among those one level deeper, else all keys next to it."""
    beside = fields_at(cls, path)
    deeper = [f"{name}.{inner}" for name in beside for inner in fields_at(cls, (*path, name))]
    near = hint(word, beside)
    if near.startswith(NEAR):
        return near
    nested = hint(word, (name.partition(".")[2] for name in deeper))
    if nested.startswith(NEAR):
        closest = next(name for name in deeper if f"'{name.partition('.')[2]}'" in nested)
        return f"{NEAR}{closest!r}?"
    return near


def fields_at(cls: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Names of the fields of the model that ``path`` of field names leads to; empty where it leads to no model."""
    model: type[BaseModel] | None = cls
    for part in path:
        if isinstance(part, int) or model is None:
            continue
        info = model.model_fields.get(part)
        model = model_in(info.annotation) if info else None
    return list(model.model_fields) if model else []


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation holds: itself, the one of ``Model | None``, or that of a container's items."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) in (Union, types.UnionType, tuple, list, dict):
        return next((found for arg in get_args(annotation) if (found := model_in(arg))), None)
    return None
