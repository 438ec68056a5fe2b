"""The README shows the help that there is, and docs/commands.md names every command and option."""

import re
from pathlib import Path

import click
import pytest

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


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_is_documented(name):
    page = (ROOT / "docs" / "commands.md").read_text()
    section = re.search(rf"^## lcplan {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/commands.md has no section 'lcplan {name}'"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    missing = [option for option in options if f"`{option}" not in section[1]]
    assert missing == []
    assert all(isinstance(parameter, click.Argument) or parameter.help for parameter in command.params), (
        "an option without help"
    )


def test_every_value_of_a_knob_is_documented():
    page = (ROOT / "docs" / "commands.md").read_text()
    table = page.split("## Options of a request")[1].split("\n## ")[0]
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
