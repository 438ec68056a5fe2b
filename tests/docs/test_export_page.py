"""docs/export.md: its table of what each trainer runs is the trainers' own facts."""

import re
from pathlib import Path

from lcplan import catalog
from planner.trainers import all_trainers, trainer, trainer_names

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def row(name: str, hardware: str, kind: str) -> str:
    target = trainer(name)
    knobs = target.knobs(catalog.hardware(hardware), target.jax)
    cells = [
        f"{name}, {kind}",
        ", ".join(knobs["scheme"].values),
        ", ".join(knobs["remat"].values),
        ", ".join(knobs["reduce_dtype"].values),
        ", ".join(knobs["moments_dtype"].values),
        "whole" if target.whole_loss else "in chunks",
        "yes" if target.replicates else "no",
        "any" if target.any_axis_order else "one",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_table_of_knobs():
    block = re.search(r"<!-- knobs -->\n(.*?)\n<!-- /knobs -->", PAGE, re.DOTALL)
    assert block is not None
    wanted = []
    for name in trainer_names():
        wanted.append(row(name, "gb200-nvl72", "GPU"))
        if "tpu" in trainer(name).kinds and not trainer(name).own_step:
            wanted.append(row(name, "tpu-v5p-64", "TPU"))
    assert block[1].splitlines()[2:] == wanted


def test_every_trainer_and_version_is_on_the_page():
    for name in trainer_names():
        assert f"`{name}`" in PAGE
        version = trainer(name).version.partition(".dev")[0]
        assert version in PAGE


def test_the_last_run_covers_at_least_six_plans_a_trainer():
    block = re.search(r"<!-- last run -->\n(.*?)\n<!-- /last run -->", PAGE, re.DOTALL)
    assert block is not None
    lines = [line for line in block[1].splitlines() if line.startswith("| `")]
    heads = next(line for line in block[1].splitlines() if line.startswith("| plan")).split("|")[2:-1]
    assert len(heads) == len([one for one in all_trainers() if not one.own_step])
    for column, head in enumerate(heads):
        cells = [line.split("|")[column + 2].strip() for line in lines]
        assert sum(cell.startswith("taken") for cell in cells) >= 6, head
        assert all(cell.startswith(("taken", "refused")) for cell in cells), head


def test_the_state_figure_of_the_memory_section():
    parameters = catalog.model("llama3-8b").parameters
    assert f"{12 * parameters / 32 / 1e9:.2f} GB" == "3.01 GB"
    assert f"12 x {parameters / 1e9:.2f}e9 / 32 = 3.01 GB" in PAGE
