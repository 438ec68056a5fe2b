"""Write cost_models/data/table_errors.json, the errors from which every ± comes: ``python benchmarks/table_errors.py``.

Rows are those of ``lcplan validate``, and for memory of lcplan's own step also the compiled steps of
tests/cost_models/data/compiled_steps.json, each kind of device as a table of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from cost_models.inputs.setting import Setting
from cost_models.uncertainty.errors import RowError
from cost_models.uncertainty.kind import PredictionFacts, shares
from lcplan.catalog import hardware, model
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.validate.run import validate
from planner.validate.scoring.calibration import row_errors
from planner.validate.scoring.result import TableResult
from planner.validate.sources.bundled import find_table, table_names
from planner.workloads.pricing import price_table, table_of

ROOT = Path(__file__).parents[1]
FILE = ROOT / "cost_models" / "data" / "table_errors.json"
COMPILED = ROOT / "tests" / "cost_models" / "data" / "compiled_steps.json"
PREFIX = "compiled for "
"""Begins the name of a table of compiled steps."""


def compiled_rows() -> Iterator[RowError]:
    """Errors of the modelled memory of lcplan's own step against the target's compiler."""
    for number, row in enumerate(json.loads(COMPILED.read_text())["rows"]):
        machine = hardware(row["hardware"])
        sizes = {name: row.get(name) for name in ("seq_len", "global_batch", "document_len")}
        spec = ModelSpec.model_validate(model(row["model"]).model_dump() | row.get("changes", {}))
        setting = Setting(spec, machine, Workload.model_validate(sizes), machine.usable_bytes)
        priced = price_table(setting, table_of(setting, [Strategy.model_validate(row["strategy"])]))
        rests, whole = priced.rests_on, float(priced.total_bytes[0])
        parts = shares({name: float(column[0]) for name, column in priced.memory_bytes.items()})
        about = PredictionFacts(rests.memory_kind, rests.rates, parts, whole)
        yield RowError(f"{PREFIX}{rests.rates}", str(number), about, math.log(whole / row["total_bytes"]))


def all_rows(results: list[TableResult]) -> list[RowError]:
    """Errors of the tables' rows and of the compiled steps."""
    return [*row_errors(results), *compiled_rows()]


def text_of(rows: list[RowError]) -> str:
    """The file: one error a line."""
    return "[\n" + ",\n".join(json.dumps(_entry(row)) for row in rows) + "\n]\n"


def _entry(row: RowError) -> dict[str, object]:
    about = row.about
    whole = None if about.whole is None else float(f"{about.whole:.4g}")
    facts = {"kind": list(about.kind), "rates": about.rates, "parts": dict(about.parts), "whole": whole}
    return {"table": row.table, "row": row.row, **facts, "error": round(row.error, 6)}


def main() -> None:
    """Validate every bundled table and write the file."""
    found = [find_table(name) for name in table_names()]
    FILE.write_text(text_of(all_rows([validate(table, path.parent) for table, path in found])))


if __name__ == "__main__":
    main()
