"""Validate a table: read each row, choose values for open fields, price it, and compare it with its measurement."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from cost_models.inputs.constants import Constants, Fitted, fitted_on, published_constants
from lcplan.formats.errors import BadInputError
from planner.validate.choices import OPTIONS
from planner.validate.scoring.contradictions import contradictions
from planner.validate.scoring.kinds import placed
from planner.validate.scoring.result import FittedOn, PairResult, TableResult
from planner.validate.scoring.row_result import RowResult
from planner.validate.scoring.score import Summary, errors, rank_correlation, summary, verdicts
from planner.validate.sources.excuse import NotModelledError
from planner.validate.sources.facts import Facts, facts_of
from planner.validate.sources.specs import Specs, trainer_of
from planner.validate.sources.table import QUANTITIES, Pair, PublishedTable, Quantity
from planner.validate.trials import CHOSEN_BY, Trial, Trials, open_fields, try_all

GRID_PRICINGS = 3000
"""Rows that a refit prices at most, over all values that it tries; a large table's fit hardly moves without one row."""
MOST_VALUES, FEWEST_VALUES = 31, 3
"""Values that a refit tries for each constant."""


def validate(table: PublishedTable, folder: Path) -> TableResult:
    """Predictions of one table with the errors against its measurements.

    Parameters
    ----------
    table
        The rows of a source.
    folder
        The folder of the table's file; paths in it are relative to this.

    Raises
    ------
    BadInputError
        Rows that name a spec, a program, a policy or a backend that does not exist: all of them.
    """
    facts, excused = _facts(table, folder)
    constants = fitted_on(table.name)
    trials = try_all(table, facts)
    best = trials.best
    left_out = _left_out(table, facts, trials=trials, constants=constants)
    rows = {result.id: result for result in (*excused, *_results(facts, best))}
    ordered = tuple(rows[row.id] for row in table.rows)
    return TableResult(
        table=table,
        rows=ordered,
        pairs=_pairs(table.pairs, rows),
        summary=_summaries([rows[fact.row.id] for fact in facts], left_out),
        fitted=(
            *_fitted_constants(constants),
            *_fitted_choices(open_fields(table, facts), best),
            *(FittedOn(text, "as the table has it", "choice", "interpretation") for text in table.interpreted),
        ),
    )


def _facts(table: PublishedTable, folder: Path) -> tuple[tuple[Facts, ...], list[RowResult]]:
    specs = Specs(table.name, folder, unstated=trainer_of(table.source))
    facts: list[Facts] = []
    excused: list[RowResult] = []
    problems: list[str] = []
    for row in table.rows:
        try:
            facts.append(facts_of(row, specs))
        except NotModelledError as excuse:
            excused.append(RowResult(row.id, row.measured.stated, why=str(excuse), reason=excuse.reason))
        except BadInputError as error:
            problems.extend(error.problems)
    if problems:
        raise BadInputError([f"table {table.name}: {problem}" for problem in problems])
    return tuple(facts), excused


def _results(facts: tuple[Facts, ...], best: Trial) -> list[RowResult]:
    results = []
    beside = contradictions(facts, best.cases)
    kinds = placed(best.cases, [fact.row.workload.part for fact in facts], best.predictions)
    for fact, case, prediction, kind in zip(facts, best.cases, best.predictions, kinds, strict=True):
        measured = fact.row.measured.stated
        chosen = dict(case.chosen)
        if "flop_convention" in best.choice and fact.row.measured.tflop_per_s_per_device is not None:
            chosen["flop_convention"] = best.choice["flop_convention"]
        signed = errors(measured, prediction)
        result = RowResult(fact.row.id, measured, chosen=chosen, predicted=prediction, error_ratio=signed, placed=kind)
        results.append(replace(result, contradicted_by=beside.get(fact.row.id)))
    return results


def _left_out(
    table: PublishedTable, facts: tuple[Facts, ...], *, trials: Trials, constants: tuple[Fitted, ...]
) -> dict[Quantity, float]:
    """Mean absolute error of each row under constants and choices that were fitted on all the others; empty: nothing fitted."""
    free = bool(constants) or len(trials.trials) > 1
    if not free or len(facts) < 2:
        return {}
    tried = try_all(table, facts, constants=_grid(constants, rows=len(facts) * len(trials.trials))) if constants else trials
    found = tried.left_out()
    there = ~np.isnan(found)
    return {name: float(found[there[:, i], i].mean()) for i, name in enumerate(CHOSEN_BY) if there[:, i].any()}


def _grid(constants: tuple[Fitted, ...], rows: int) -> list[Constants]:
    """Values of the constants to try, their published ones among them."""
    points = int(np.clip((GRID_PRICINGS / rows) ** (1 / len(constants)), FEWEST_VALUES, MOST_VALUES))
    axes = [sorted({*np.linspace(entry.low, entry.high, points), entry.value}) for entry in constants]
    names = [entry.name for entry in constants]
    published = published_constants()
    return [published.changed({n: float(v) for n, v in zip(names, values, strict=True)}) for values in product(*axes)]


def _summaries(rows: list[RowResult], left_out: dict[Quantity, float]) -> dict[Quantity, Summary]:
    found: dict[Quantity, Summary] = {}
    for name in QUANTITIES:
        there = [row for row in rows if name in row.error_ratio]
        if not there:
            continue
        measured, predicted = [[float(getattr(row, side)[name]) for row in there] for side in ("measured", "predicted")]
        ranks = None if name == "fits" else rank_correlation(measured, predicted)
        entry = summary([row.error_ratio[name] for row in there], ranks=ranks, leave_one_out=left_out.get(name))
        if name == "fits":
            needs = [float(row.predicted["budget_ratio"]) for row in there]
            signed, beside = [row.error_ratio[name] for row in there], [row.contradicted_by is not None for row in there]
            entry = replace(entry, outside_band=verdicts(signed, needs, beside))
        found[name] = entry
    return found


def _pairs(pairs: tuple[Pair, ...], rows: dict[str, RowResult]) -> tuple[PairResult, ...]:
    found = []
    for pair in pairs:
        a, b = rows[pair.a], rows[pair.b]
        both = [name for name in CHOSEN_BY if name in a.measured and name in b.measured]
        quantity = pair.quantity or (both[0] if both else None)
        if quantity is None:
            continue
        measured = pair.measured_ratio or float(a.measured[quantity]) / float(b.measured[quantity])
        priced = quantity in a.predicted and quantity in b.predicted
        predicted = float(a.predicted[quantity]) / float(b.predicted[quantity]) if priced else None
        found.append(PairResult(pair.a, pair.b, quantity, measured, predicted))
    return tuple(found)


def _fitted_constants(constants: tuple[Fitted, ...]) -> list[FittedOn]:
    return [FittedOn(entry.name, entry.value, entry.unit, "constant") for entry in constants]


def _fitted_choices(fields: tuple[str, ...], best: Trial) -> list[FittedOn]:
    """Choices among several options; a field with one option is stated with its rows, and nothing was fitted."""
    return [FittedOn(name, best.choice[name], "choice", "choice") for name in fields if len(OPTIONS[name]) > 1]
