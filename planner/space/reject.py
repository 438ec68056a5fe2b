"""Screening: which rows the rules reject, under which rule, and the message for the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Strategy
from planner.rules import Rule


@dataclass(frozen=True)
class Rejected:
    """The strategies that broke a rule, counted by the first rule that each breaks, with one example of each rule."""

    rules: tuple[Rule, ...]
    counts: Mapping[str, int]
    """Strategies by rule, in the order of ``rules``; a mesh that breaks a rule counts for all its knob values."""
    examples: Mapping[str, Strategy]

    @property
    def total(self) -> int:
        """Strategies rejected."""
        return sum(self.counts.values())

    def then(self, further: Rejected) -> Rejected:
        """These strategies and the ones that later rules rejected."""
        return Rejected((*self.rules, *further.rules), {**self.counts, **further.counts}, {**self.examples, **further.examples})

    def example(self, setting: Setting, name: str) -> str:
        """The message of the strategy on most devices that ``name`` rejected.

        Raises
        ------
        KeyError
            The rule rejected nothing.
        """
        strategy = self.examples[name]
        return next(rule for rule in self.rules if rule.name == name).explain(setting, strategy)


class Tally:
    """Counts of rejected strategies while tables of them are screened one after the other."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._counts = [0] * len(rules)
        self._examples: dict[int, tuple[int, Strategy]] = {}
        """Devices and strategy by rule."""

    def add(self, broken: NDArray[np.int64], table: StrategyTable, weights: NDArray[np.int64] | int = 1) -> None:
        """Count the rows of ``table`` that break a rule (``screen``), each as ``weights`` strategies."""
        for index in np.unique(broken[broken >= 0]).tolist():
            rows = np.flatnonzero(broken == index)
            own = weights * len(rows) if isinstance(weights, int) else int(weights[rows].sum())
            if own == 0:
                continue
            self._counts[index] += own
            counted = rows if isinstance(weights, int) else rows[weights[rows] > 0]
            devices = table.devices[counted]
            most = int(devices.max())
            if most >= self._examples.get(index, (0,))[0]:
                self._examples[index] = most, table.strategy(int(counted[np.flatnonzero(devices == most)[-1]]))

    def result(self) -> Rejected:
        """Return the counts and examples so far."""
        counts = {rule.name: count for rule, count in zip(self._rules, self._counts, strict=True) if count}
        examples = {self._rules[index].name: strategy for index, (_, strategy) in sorted(self._examples.items())}
        return Rejected(self._rules, counts, examples)


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
