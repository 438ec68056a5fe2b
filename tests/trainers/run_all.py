"""Every shared plan against every trainer's real package; the table of the result, as it stands in docs/export.md.

``python tests/trainers/run_all.py`` prints it; ``--write docs/export.md`` puts it between the page's marks. Trainers without a
Python (see setup_venvs.sh) are left out and named.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "planner"))
sys.path.insert(0, str(Path(__file__).parents[1] / "planner" / "export"))

from export_plans import plans
from real_trainers import REAL, real_python

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from planner.export.check import check_exports
from planner.export.folder import write_export
from planner.export.run import export_plan

START, END = "<!-- last run -->", "<!-- /last run -->"


def column(shared: dict[str, Plan], trainer: str, *, python: str) -> tuple[dict[str, str], str]:
    """Every plan under one trainer: ``taken``, ``refused`` by lcplan, or what went wrong; and the package's version."""
    cells = dict.fromkeys(shared, "refused")
    with tempfile.TemporaryDirectory() as root:
        exports = {}
        for name, plan in shared.items():
            with contextlib.suppress(BadInputError):
                export = export_plan(plan, trainer)
                write_export(Path(root, name), export.files)
                exports[name] = (export, Path(root, name))
        results = check_exports(list(exports.values()), python)
    for (name, (export, _)), result in zip(exports.items(), results, strict=True):
        changed = sum(difference.field is not None for difference in export.translation.differences)
        taken = f"taken, {changed} changed" if changed else "taken"
        cells[name] = taken if result.good else f"not taken: {result.said or '; '.join(result.mismatches)}"
        print(f"{trainer}: {name}: {cells[name]}", file=sys.stderr, flush=True)
    return cells, results[0].version


def table(pythons: dict[str, str]) -> str:
    """The Markdown table."""
    shared = plans()
    columns = {trainer: column(shared, trainer, python=python) for trainer, python in pythons.items()}
    rows = [
        f"| `{name}`: {plan.strategy.label} | {' | '.join(cells[name] for cells, _ in columns.values())} |"
        for name, plan in shared.items()
    ]
    heads = [f"{trainer} {version}" for trainer, (_, version) in columns.items()]
    missing = [trainer for trainer in REAL if trainer not in pythons]
    left_out = f" Not here: {', '.join(missing)}." if missing else ""
    day = datetime.now(UTC).date().isoformat()
    lines = [f"Run on {day}.{left_out}", "", f"| plan | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", *rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="PAGE", help="put the table between the page's marks")
    page = parser.parse_args().write
    found = table({trainer: python for trainer in REAL if (python := real_python(trainer))})
    if page is None:
        print(found)
        return
    text = Path(page).read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    Path(page).write_text(f"{before}{START}\n{found}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
