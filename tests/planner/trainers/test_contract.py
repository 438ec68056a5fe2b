"""Every registered trainer keeps the contract, and every list of trainers is the registry's."""

import re
from pathlib import Path

import pytest
from contract import TrainerContract

from planner.cli.commands.estimate import command as estimate
from planner.cli.commands.export import command as export
from planner.cli.commands.search import command as search
from planner.trainers import all_trainers, trainer, trainer_names
from planner.trainers.common.interface import OWN_STEP
from planner.trainers.registry import folder_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")
OPTIONS = {
    option: parameter for command in (estimate, export, search) for parameter in command.params for option in parameter.opts
}


@pytest.mark.parametrize("name", trainer_names())
class TestEveryTrainer(TrainerContract):
    def test_the_commands_take_it(self, name):
        target = trainer(name)
        assert name in OPTIONS["--to"].type.choices
        assert name in OPTIONS["--for"].type.choices
        assert (f"--from-{name}" in OPTIONS) == (target.reads is not None)

    def test_the_page_has_it(self, name):
        target = trainer(name)
        assert f"| `{name}` | `{target.file}`" in PAGE
        assert (f"--from-{name} " in PAGE) == (target.reads is not None)

    def test_no_code_outside_its_folder_compares_its_name(self, name):
        compared = re.compile(rf"""(==|!=|\bin\b)\s*[("'\[{{]+{name}\b["']""")
        homes = {folder_of(other) for other in trainer_names()}
        files = {file for package in PACKAGES for file in (ROOT / package).rglob("*.py") if homes.isdisjoint(file.parents)}
        assert [str(file) for file in files if compared.search(file.read_text(encoding="utf-8"))] == []


def test_the_page_of_commands_lists_them_in_order():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| `--to TRAINER` \| (.*) \|$", page, re.MULTILINE)
    assert tuple(re.split(r", | or ", row)) == trainer_names()


def test_one_trainer_is_lcplans_own_step():
    assert [one.name for one in all_trainers() if one.own_step] == [OWN_STEP]


def test_the_own_step_runs_all_that_the_others_refuse():
    own = trainer(OWN_STEP)
    for one in all_trainers():
        assert set(one.kinds) <= set(own.kinds)
        assert set(one.precisions) <= set(own.precisions)
        assert (one.experts, one.windows) <= (own.experts, own.windows)
