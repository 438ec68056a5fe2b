"""Rule: the shape that every rule has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, StrategyTable
from lcplan.strategy import Strategy

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """``broken`` marks the rows that ``name`` rejects, shape [n]; ``explain`` gives one row's reason and an alternative."""

    name: str
    level: Literal["mesh", "knob"]
    broken: Callable[[Setting, StrategyTable], Mask]
    explain: Callable[[Setting, Strategy], str]


def code(column: str, value: str) -> int:
    """The integer that encodes ``value`` in a code column."""
    return CODES[column].index(value)
