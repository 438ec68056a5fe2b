"""The tables of pages that follow from records: knobs and axes. ``python tests/docs/record_tables.py`` writes them anew."""

import re
from pathlib import Path

from lcplan.strategy import KNOBS
from lcplan.strategy.axes import AXIS_RECORDS

DOCS = Path(__file__).parents[2] / "docs"
LARGEST_SHOWN = 10**6
"""A larger bound only keeps numbers finite and is not shown."""


def knob_table():
    """One row per knob."""
    yield "| option | meaning | values | values in a search | active if | workloads |"
    yield "|---|---|---|---|---|---|"
    for knob in KNOBS.values():
        values = ", ".join(f"`{value}`" for value in knob.values) or _range(knob)
        searched = (
            ", ".join(f"`{word}`" for word in knob.default_words.split())
            if knob.grid and knob.default_words != "all"
            else knob.default_words
        )
        cells = [f"`{knob.option}`", knob.help, values, searched, knob.condition or "always", ", ".join(knob.workloads)]
        yield f"| {' | '.join(cells)} |"


def _range(knob):
    unit = f" {knob.unit}" if knob.unit else ""
    return f"{knob.least} to {knob.most}{unit}" if knob.most < LARGEST_SHOWN else f"from {knob.least}{unit}"


def axis_table():
    """One row per axis."""
    yield "| axis | letter | splits | other names |"
    yield "|---|---|---|---|"
    for name, axis in AXIS_RECORDS.items():
        others = ", ".join(f"`{other}`" for other in axis.aliases)
        yield f"| `{name}` | {axis.letter} | {axis.help} | {others} |"


TABLES = {"knobs": ("commands.md", knob_table), "axes": ("notation.md", axis_table)}
"""By the mark around it, each table's page and its rows."""


def block(mark):
    """The pattern of a table between its marks."""
    return re.compile(rf"(?<=<!-- {mark}: python tests/docs/record_tables.py -->\n).*?(?=\n<!-- /{mark} -->)", re.DOTALL)


def main():
    for mark, (page, rows) in TABLES.items():
        text, table = (DOCS / page).read_text(encoding="utf-8"), "\n".join(rows())
        (DOCS / page).write_text(block(mark).sub(lambda _, table=table: table, text), encoding="utf-8")


if __name__ == "__main__":
    main()
