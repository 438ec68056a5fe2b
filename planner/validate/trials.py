"""Trials: every choice for a table's open fields, priced at once, and which of them errs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.constants import Constants
from cost_models.inputs.setting import Setting
from planner.validate.choices import Case, Cases, choices
from planner.validate.predict import Prediction, predict
from planner.validate.scoring.score import errors
from planner.validate.sources.facts import Facts
from planner.validate.sources.table import QUANTITIES, PublishedTable

CHOSEN_BY = tuple(name for name in QUANTITIES if name != "fits")
"""Quantities whose errors decide a choice."""


@dataclass(frozen=True)
class Trial:
    """All modelled rows of a table under one choice."""

    choice: dict[str, str]
    cases: tuple[Case, ...]
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True)
class Trials:
    """All choices for one table."""

    facts: tuple[Facts, ...]
    trials: tuple[Trial, ...]

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """Absolute errors [trial, row, quantity of CHOSEN_BY]; NaN where the row does not state the quantity."""
        found = np.full((len(self.trials), len(self.facts), len(CHOSEN_BY)), np.nan)
        for t, trial in enumerate(self.trials):
            for r, (fact, prediction) in enumerate(zip(self.facts, trial.predictions, strict=True)):
                for name, error in errors(fact.row.measured.stated, prediction).items():
                    if name in CHOSEN_BY:
                        found[t, r, CHOSEN_BY.index(name)] = abs(error)
        return found

    @cached_property
    def unfit(self) -> NDArray[np.bool_]:
        """Rows that ran and that a trial predicts not to fit [trial, row]."""
        ran = np.array([fact.row.measured.fits is not False for fact in self.facts], dtype=np.bool_)
        fits = [[bool(prediction.get("fits", True)) for prediction in trial.predictions] for trial in self.trials]
        return ran & ~np.array(fits, dtype=np.bool_).reshape(len(self.trials), len(self.facts))

    @property
    def best(self) -> Trial:
        """The trial of least mean absolute error among the trials that have the fewest unfit rows; of equals the plainest."""
        return self.trials[_least(self.errors, self.unfit)]

    def left_out(self) -> NDArray[np.float64]:
        """Absolute errors [row, quantity] of each row under the trial that is best for all the others."""
        everything = self.errors
        found = np.full(everything.shape[1:], np.nan)
        for row in range(len(self.facts)):
            others = np.delete(everything, row, axis=1)
            found[row] = everything[_least(others, np.delete(self.unfit, row, axis=1)), row]
        return found


def _least(absolute: NDArray[np.float64], unfit: NDArray[np.bool_]) -> int:
    """The trial of least mean error over the rows and quantities that are there, of trials that have the fewest unfit rows."""
    there = ~np.isnan(absolute)
    total = np.where(there, absolute, 0.0).sum(axis=(1, 2))
    count = np.maximum(there.sum(axis=(1, 2)), 1)
    wrong = unfit.sum(axis=1)
    return int(np.argmin(np.where(wrong == wrong.min(), np.round(total / count, 9), np.inf)))


def open_fields(table: PublishedTable, facts: Sequence[Facts]) -> tuple[str, ...]:
    """Fields that the source leaves open in at least one row, in the order in which they are chosen."""
    found = {name: None for fact in facts for name in fact.open}
    rates = any(fact.row.measured.tflop_per_s_per_device is not None for fact in facts)
    if table.flop_convention == "unknown" and rates:
        found["flop_convention"] = None
    return tuple(found)


def try_all(table: PublishedTable, facts: tuple[Facts, ...], *, constants: Sequence[Constants | None] = (None,)) -> Trials:
    """Price every choice under each of ``constants`` (None: the published ones)."""
    fields = open_fields(table, facts)
    options = choices(fields)
    cases = Cases()
    trials: list[Trial] = []
    for values in constants:
        made = [tuple(_with(cases.case(fact, choice), values) for fact in facts) for choice in options]
        flat = [case for row_cases in made for case in row_cases]
        parts = [fact.row.workload.part for fact in facts] * len(options)
        priced = predict(_shared(flat), parts, memory_figure=table.memory_figure)
        for index, choice in enumerate(options):
            name = choice.get("flop_convention", table.flop_convention if table.flop_convention != "unknown" else "model")
            rows = priced[index * len(facts) : (index + 1) * len(facts)]
            trials.append(Trial(choice, made[index], tuple(by_convention[name] for by_convention in rows)))
    return Trials(facts, tuple(trials))


def _with(case: Case, constants: Constants | None) -> Case:
    return case if constants is None else replace(case, setting=replace(case.setting, constants=constants))


def _shared(cases: list[Case]) -> list[Case]:
    """The cases with equal settings as one object again, so that they are priced together."""
    known: dict[tuple[object, ...], Setting] = {}
    shared = []
    for case in cases:
        s = case.setting
        key = (id(s.model), id(s.hardware), s.workload, s.program, s.constants)
        shared.append(replace(case, setting=known.setdefault(key, s)))
    return shared
