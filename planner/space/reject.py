"""Screening: which rows the rules reject, under which rule, and the message for the reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.rules import Rule


@dataclass(frozen=True)
class Rejected:
    """Rows that broke a rule: ``rule[i]`` is the first rule (an index into ``rules``) that row ``i`` of ``table`` breaks.

    ``weight[i]`` is the number of strategies in the row: a mesh that breaks a mesh rule counts for all its knob values.
    """

    rules: tuple[Rule, ...]
    table: StrategyTable
    rule: NDArray[np.int64]
    weight: NDArray[np.int64]

    @property
    def counts(self) -> dict[str, int]:
        """Strategies rejected by each rule that rejected any."""
        totals = np.bincount(self.rule, weights=self.weight, minlength=len(self.rules))
        return {rule.name: int(total) for rule, total in zip(self.rules, totals, strict=True) if total}

    @property
    def total(self) -> int:
        """Strategies rejected."""
        return int(self.weight.sum())

    def example(self, setting: Setting, name: str) -> str:
        """The message of the last row (the largest mesh) that ``name`` rejected.

        Raises
        ------
        KeyError
            The rule rejected nothing.
        """
        index = next((i for i, rule in enumerate(self.rules) if rule.name == name), None)
        rows = np.flatnonzero(self.rule == index) if index is not None else np.empty(0, dtype=np.int64)
        if index is None or not len(rows):
            raise KeyError(name)
        return self.rules[index].explain(setting, self.table.strategy(int(rows[-1])))


def screen(setting: Setting, rules: Sequence[Rule], table: StrategyTable) -> NDArray[np.int64]:
    """The first broken rule of each row as an index into ``rules``, -1 for a valid row, shape [n]."""
    first = np.full(len(table), -1, dtype=np.int64)
    for index, rule in enumerate(rules):
        open_rows = first < 0
        if not open_rows.any():
            break
        first[open_rows & rule.broken(setting, table)] = index
    return first


def broken_rules_of(setting: Setting, strategy: Strategy, *, rules: Sequence[Rule]) -> list[str]:
    """Every one of ``rules`` that a strategy breaks, each as its message with its name."""
    table = StrategyTable.from_strategies([strategy])
    return [f"{rule.explain(setting, strategy)} (rule {rule.name})" for rule in rules if rule.broken(setting, table)[0]]
