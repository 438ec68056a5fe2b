"""The half-widths of predictions: the errors behind them are those of today, and they cover what was measured."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from cost_models.uncertainty.errors import PublishedErrors, published_errors
from planner.validate.scoring.calibration import covers, row_errors

ROOT = Path(__file__).parents[3]
ANEW = "make it anew: python benchmarks/table_errors.py"


def script():
    spec = importlib.util.spec_from_file_location("table_errors", ROOT / "benchmarks" / "table_errors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_key(rows):
    return {(row.table, row.row, row.about.kind): row for row in rows}


def test_the_file_of_errors_is_not_stale(results):
    now, kept = by_key(script().all_rows(results)), by_key(published_errors().rows)
    assert kept.keys() == now.keys(), ANEW
    for key, row in now.items():
        assert kept[key].error == pytest.approx(row.error, abs=1e-3), f"{key}: {ANEW}"
        assert kept[key].about.rates == row.about.rates, ANEW
        assert kept[key].about.parts == pytest.approx(row.about.parts, abs=2e-3), f"{key}: {ANEW}"


def test_nine_of_ten_rows_are_covered_by_other_rows(results):
    """The bar: at least 90 % of the bundled rows, with a median half-width of at most twice the mean error of each kind."""
    *kinds, every = covers(list(row_errors(results)), published_errors())
    assert every.rows > 1900
    assert round(every.covered, 2) >= 0.9
    assert every.covered_without_table >= 0.85
    for kind in kinds:
        assert kind.median_half_width <= 2 * kind.mean_error, kind
        assert kind.covered >= 0.85 or kind.rows < 20, kind


def test_a_row_is_judged_by_other_rows_only(results):
    """A row's own error changes nothing: with an error of e^9 it gets the same half-width."""
    errors = published_errors()
    chosen = errors.rows[::100]
    changed = {(row.table, row.row, row.about.kind): replace(row, error=9.0) for row in chosen}
    for row in chosen:
        others = [
            changed[key] if key == (row.table, row.row, row.about.kind) else one for key, one in by_key(errors.rows).items()
        ]
        apart = (row.table, row.row)
        assert PublishedErrors(others).half_width(row.about, without=apart) == errors.half_width(row.about, without=apart)


def test_rows_of_the_document_say_whether_they_are_covered(results):
    (result,) = [one for one in results if one.table.name == "h100-single-device"]
    for row in result.to_json()["rows"]:
        assert set(row["half_width_ratio"]) == {"step_s", "peak_bytes"}
        off = max(
            row["measured"]["step_s"] / row["predicted"]["step_s"], row["predicted"]["step_s"] / row["measured"]["step_s"]
        )
        assert row["covered"]["step_s"] == (off <= 1 + row["half_width_ratio"]["step_s"])
