"""The base of every spec: frozen, extra fields are errors, all problems reported at once."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lcplan.errors import BadInputError


class Frozen(BaseModel):
    """A frozen value. Unknown fields are errors; finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        """Validate ``data`` (from a user's file called ``where``).

        Raises
        ------
        BadInputError
            With one line for every problem: the key, what is wrong and the value.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise BadInputError([_line(where, problem, cls) for problem in error.errors()]) from None


def _line(where: str, problem: Any, cls: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = _near(str(problem["loc"][-1]), cls, problem["loc"][:-1])
        return f"{where}: unknown key {key!r}{near}"
    if problem["type"] == "missing":
        return f"{where}: missing key {key!r}"
    value = repr(problem.get("input"))
    return f"{where}: {key or 'content'}: {problem['msg']} (got {value[:80]})"


def _near(word: str, cls: type[BaseModel], path: tuple[str | int, ...]) -> str:
    from difflib import get_close_matches

    fields: list[str] = list(cls.model_fields)
    if path:  # a nested model: its own names are found by walking the annotations
        model: Any = cls
        for part in path:
            info = getattr(model, "model_fields", {}).get(part)
            model = getattr(info, "annotation", None)
        fields = list(getattr(model, "model_fields", {}))
    close = get_close_matches(word, fields, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(sorted(fields))}" if fields else ""
