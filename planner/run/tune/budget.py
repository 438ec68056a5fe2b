"""Budget: how long to tune, in trials or in minutes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lcplan.formats.errors import BadInputError


@dataclass(frozen=True)
class Budget:
    """One of the two is given. Trials count those of an interrupted run too; minutes are this run's."""

    trials: int | None = None
    minutes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``40`` trials or ``5min``.

        Raises
        ------
        BadInputError
            Neither.

        >>> Budget.parse("40"), Budget.parse("5min")
        (Budget(trials=40, minutes=None), Budget(trials=None, minutes=5.0))
        """
        match = re.fullmatch(r"\s*(\d{1,6}(?:\.\d+)?)\s*(min)?\s*", text)
        if match and match[2] and float(match[1]) > 0:
            return cls(minutes=float(match[1]))
        if match and not match[2] and match[1].isdecimal() and int(match[1]) > 0:
            return cls(trials=int(match[1]))
        raise BadInputError(f"--tune {text!r:.40} is no budget; write trials (40) or minutes (5min)")

    def over(self, *, trials: int, seconds: float) -> bool:
        """Whether it is used up."""
        return trials >= self.trials if self.trials is not None else seconds >= 60.0 * (self.minutes or 0.0)
