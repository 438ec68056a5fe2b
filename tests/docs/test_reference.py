"""The README shows the help that there is, and docs/commands.md names every command and option."""

import re
from pathlib import Path

import click
import pytest
from record_tables import TABLES, block

from lcplan.strategy import AXES
from planner.cli.main import COMMANDS, cli
from planner.cli.options import Several

ROOT = Path(__file__).parents[2]


def _help() -> str:
    names = cli.context_settings["help_option_names"]
    context = click.Context(cli, info_name="lcplan", max_content_width=100, terminal_width=100, help_option_names=names)
    return cli.get_help(context)


def test_the_readme_shows_the_help_as_it_is():
    block = re.search(r"```text\n\$ lcplan --help\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    assert block[1].rstrip() == _help().rstrip()


@pytest.mark.parametrize("text", [_help(), (ROOT / "README.md").read_text()], ids=["help", "README"])
def test_the_axes_are_named_in_the_order_of_the_registry(text):
    words = " ".join(text.replace("*", "").split())
    named = words.count(f"enumerates meshes ({', '.join(AXES)})")
    assert named == words.count("enumerates meshes (") > 0


SHARED = {"#options-of-a-request": "Options of a request", "#knobs": "Knobs", "#files-of-trainers": "Files of trainers"}
"""The sections of docs/commands.md that several commands link to."""


def _section(name: str) -> str:
    page = (ROOT / "docs" / "commands.md").read_text()
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/commands.md has no section {name!r}"
    return section[1]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_is_documented(name):
    text = _section(f"lcplan {name}")
    text += "".join(_section(title) for link, title in SHARED.items() if f"({link})" in text)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    missing = [option for option in options if f"`{option}" not in text]
    assert missing == []
    assert all(isinstance(parameter, click.Argument) or parameter.help for parameter in command.params), (
        "an option without help"
    )


def test_every_value_of_a_knob_is_documented():
    table = _section("Options of a request") + _section("Knobs")
    rows = {
        option: line for line in table.splitlines() for option in re.findall(r"`(--[\w-]+)[^`]*`", line[: line.find("|", 1)])
    }
    command = cli.get_command(click.Context(cli), "search")
    assert command is not None
    knobs = {parameter.opts[0]: parameter.type for parameter in command.params if isinstance(parameter.type, Several)}
    assert len(knobs) > 10
    missing = {
        name: [one for one in kind.known if not re.search(rf"\b{one}\b(?!-)", rows[name])] for name, kind in knobs.items()
    }
    assert {name: absent for name, absent in missing.items() if absent} == {}


@pytest.mark.parametrize("mark", TABLES)
def test_the_tables_of_records_are_up_to_date(mark):
    page, rows = TABLES[mark]
    shown = block(mark).search((ROOT / "docs" / page).read_text())
    assert shown is not None
    assert shown[0].splitlines() == list(rows()), "write it anew: python tests/docs/record_tables.py"
