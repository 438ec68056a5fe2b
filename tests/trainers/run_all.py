"""Every shared plan against every trainer's real package; the table of the result, as it stands in docs/export.md.

``python tests/trainers/run_all.py`` prints it; ``--write docs/export.md`` puts it between the page's marks. Trainers without a
Python (see setup_venvs.sh) are left out and named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "planner" / "export"))

from export_plans import plans
from real_trainers import VENVS, real_python

from lcplan.errors import BadInputError, LcplanError
from planner.export.check import check_export
from planner.export.folder import write_export
from planner.export.run import export_plan

START, END = "<!-- last run -->", "<!-- /last run -->"


def cell(plan, trainer: str, python: str) -> tuple[str, str]:
    """One plan under one trainer: ``taken``, ``refused`` by lcplan, or what went wrong; and the package's version."""
    try:
        export = export_plan(plan, trainer)
    except BadInputError:
        return "refused", ""
    with tempfile.TemporaryDirectory() as folder:
        write_export(Path(folder), export.files)
        try:
            result = check_export(export, Path(folder), python)
        except LcplanError as error:
            return f"failed: {error}", ""
    changed = sum(difference.field is not None for difference in export.translation.differences)
    taken = f"taken, {changed} changed" if changed else "taken"
    return (taken if result.good else f"not taken: {result.said or '; '.join(result.mismatches)}"), result.version


def table(pythons: dict[str, str]) -> str:
    """The Markdown table."""
    versions: dict[str, str] = {}
    rows = []
    for name, plan in plans().items():
        cells = []
        for trainer, python in pythons.items():
            words, version = cell(plan, trainer, python)
            versions[trainer] = version or versions.get(trainer, "")
            cells.append(words)
            print(f"{name}: {trainer}: {words}", file=sys.stderr, flush=True)
        label = f"`{name}`: {plan.strategy.label}"
        rows.append(f"| {label} | {' | '.join(cells)} |")
    heads = [f"{trainer} {versions[trainer]}" for trainer in pythons]
    day = datetime.now(UTC).date().isoformat()
    missing = [trainer for trainer in VENVS if trainer not in pythons]
    left_out = f" Not here: {', '.join(missing)}." if missing else ""
    lines = [f"Run on {day}.{left_out}", "", f"| plan | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", *rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="PAGE", help="put the table between the page's marks")
    page = parser.parse_args().write
    found = table({trainer: python for trainer in VENVS if (python := real_python(trainer))})
    if page is None:
        print(found)
        return
    text = Path(page).read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    Path(page).write_text(f"{before}{START}\n{found}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
