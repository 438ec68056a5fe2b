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
from cost_models.uncertainty.errors import TableErrors
from lcplan.catalog import hardware, model
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.validate.run import validate
from planner.validate.scoring.calibration import RowError, row_errors, table_errors
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
        rests, error = priced.rests_on, math.log(float(priced.total_bytes[0]) / row["total_bytes"])
        yield RowError(f"{PREFIX}{rests.rates}", str(number), rests, rests.memory_kind, error)


def all_rows(results: list[TableResult]) -> list[RowError]:
    """Errors of the tables' rows and of the compiled steps."""
    return [*row_errors(results), *compiled_rows()]


def text_of(errors: tuple[TableErrors, ...]) -> str:
    """The file: one entry a line."""
    lines = (json.dumps({**vars(entry), "kind": list(entry.kind)}) for entry in errors)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> None:
    """Validate every bundled table and write the file."""
    found = [find_table(name) for name in table_names()]
    FILE.write_text(text_of(table_errors(all_rows([validate(table, path.parent) for table, path in found]))))


if __name__ == "__main__":
    main()
