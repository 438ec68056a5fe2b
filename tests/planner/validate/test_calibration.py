"""The half-widths of predictions: the errors behind them are those of today, and they cover what was measured."""

import importlib.util
import math
from pathlib import Path

import pytest

from cost_models.uncertainty.errors import published_errors
from planner.validate.scoring.calibration import covers, row_errors, table_errors

ROOT = Path(__file__).parents[3]
ANEW = "make it anew: python benchmarks/table_errors.py"


def script():
    spec = importlib.util.spec_from_file_location("table_errors", ROOT / "benchmarks" / "table_errors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_key(errors):
    return {(entry.kind, entry.rates, entry.table): entry for entry in errors}


def test_the_file_of_errors_is_not_stale(results):
    now = by_key(table_errors(script().all_rows(results)))
    kept = by_key(published_errors())
    assert kept.keys() == now.keys(), ANEW
    for key, entry in now.items():
        assert kept[key].rows == entry.rows, ANEW
        assert kept[key].mean == pytest.approx(entry.mean, abs=1e-3), f"{key}: {ANEW}"


def test_nine_of_ten_rows_are_covered_without_their_own_table(results):
    """The bar: at least 90 % of the bundled rows, with a median half-width of at most twice their mean error."""
    every = covers(list(row_errors(results)), published_errors())[-1]
    assert every.rows > 1900
    assert every.covered >= 0.9
    assert every.median_half_width <= 2 * every.mean_error


def test_a_row_is_judged_by_other_tables_only(results):
    """Without its own entries the file gives the same cover; with nothing else left, no half-width is finite."""
    rows = [row for row in row_errors(results) if row.table == "seed-s1-gb200-nvshmem"]
    others = [entry for entry in published_errors() if entry.table != "seed-s1-gb200-nvshmem"]
    assert covers(rows, others) == covers(rows, published_errors())
    own = [entry for entry in published_errors() if entry.table == "seed-s1-gb200-nvshmem"]
    assert math.isinf(covers(rows, own)[-1].median_half_width)


def test_rows_of_the_document_say_whether_they_are_covered(results):
    (result,) = [one for one in results if one.table.name == "h100-single-device"]
    for row in result.to_json()["rows"]:
        assert set(row["half_width_ratio"]) == {"step_s", "peak_bytes"}
        off = max(
            row["measured"]["step_s"] / row["predicted"]["step_s"], row["predicted"]["step_s"] / row["measured"]["step_s"]
        )
        assert row["covered"]["step_s"] == (off <= 1 + row["half_width_ratio"]["step_s"])
