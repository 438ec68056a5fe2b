"""No text of a plan becomes code: every free text of a plan goes through every exporter, and the files run with stubs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import export_plans
import pytest
import yaml

from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from lcplan.formats.text import docstring_text, one_line, python_text, shell_text
from planner.cli.main import run
from planner.export.run import export_plan
from planner.trainers import trainer_names

ATTACKS = (
    "$(touch PWNED)",
    "`touch PWNED`",
    "'; touch PWNED; '",
    '"; touch PWNED; "',
    '"""\\"); __import__("os").system("touch PWNED") #',
    "\\'); __import__('os').system('touch PWNED') #'''",
    "{0.__class__}${PWNED:=x} %s",
    "x: !!python/object/apply:os.system ['touch PWNED']",
    "# & touch PWNED | touch PWNED > PWNED \\",
)
BREAKS = ("\n", "\r", "\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\u2029", "\u202e", "\x00")
STUBS = ("accelerate", "deepspeed", "python3", "srun", "torchrun")


def hostile_plan(attack: str) -> Plan:
    """A plan with the attack in every text that is not one of a list."""
    plan = export_plans.make_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8, microbatches=2)
    data = plan.model_dump(mode="json")
    texts = [path for path in _texts(data) if _accepts(data, path)]
    for path in texts:
        _set(data, path, attack)
    assert {path[-1] for path in texts} >= {"name", "description", "source"}
    data["xla_flags"] = [f"--xla_{attack}"]
    data["environment"] = {"XLA_PYTHON_CLIENT_MEM_FRACTION": attack, "OTHER": attack}
    return Plan.model_validate(data)


def _texts(data: Any, path: tuple = ()) -> list[tuple]:
    if isinstance(data, str):
        return [path]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in items for found in _texts(value, (*path, key))]


def _set(data: Any, path: tuple, value: object) -> object:
    for key in path[:-1]:
        data = data[key]
    before, data[path[-1]] = data[path[-1]], value
    return before


def _accepts(data: Any, path: tuple) -> bool:
    """Whether the plan takes any text there; versions are read as numbers and stay."""
    if path[:1] in (("evidence",), ("toolchain",), ("lcplan_version",)):
        return False
    before = _set(data, path, "free text")
    try:
        Plan.model_validate(data)
    except ValueError:
        return False
    finally:
        _set(data, path, before)
    return True


@pytest.fixture
def stubs(tmp_path: Path) -> dict[str, str]:
    """An environment whose launchers print their words and do nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in STUBS:
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\n" "$XLA_FLAGS" "$@"\n')
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}", "SLURM_SUBMIT_DIR": "."}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", trainer_names())
def test_texts_of_a_plan_stay_texts(name: str, attack: str, tmp_path: Path, stubs: dict[str, str]) -> None:
    plan = hostile_plan(attack)
    export = export_plan(plan, name)
    folder = tmp_path / "out"
    folder.mkdir()
    for file, text in export.files.items():
        (folder / file).write_text(text)
        if file.endswith(".py"):
            _check_module(text, attack)
        elif file.endswith((".yaml", ".yml")):
            yaml.safe_load(text)
    done = subprocess.run(
        ["bash", str(folder / "launch.sh")], cwd=folder, env=stubs, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    if name in ("jax", "levanter", "maxtext"):
        assert f"--xla_{attack}" in done.stdout.splitlines()[0]
    subprocess.run(
        ["bash", "-c", f"cd {folder} && : {export.launch.line}"], env=stubs, check=True, capture_output=True, timeout=30
    )
    assert not list(tmp_path.rglob("PWNED"))
    assert not Path("PWNED").exists()


def _check_module(text: str, attack: str) -> None:
    """The attack is inside of strings only: calls and names are the same as with a plain text."""
    tree = ast.parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "__import__" not in names
    assert attack in ast.get_docstring(tree, clean=False)


@pytest.mark.parametrize("character", BREAKS)
def test_a_name_has_no_line_break_and_no_control(character: str, tmp_path: Path) -> None:
    data = export_plans.make_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8).model_dump(mode="json")
    text = f"a{character}b"
    for path in (("request", "model", "name"), ("request", "hardware", "name"), ("request", "hardware", "device", "name")):
        before = _set(data, path, text)
        with pytest.raises(BadInputError, match="cannot be printed; use plain text on one line"):
            Plan.read(data, "plan.yaml")
        _set(data, path, before)
    for field, value in (("xla_flags", [text]), ("environment", {"NAME": text}), ("environment", {text: "x"})):
        before = _set(data, (field,), value)
        with pytest.raises(BadInputError, match=rf"plan\.yaml: {field}"):
            Plan.read(data, "plan.yaml")
        _set(data, (field,), before)


def test_a_hostile_plan_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = export_plans.make_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8).model_dump(mode="json")
    data["request"]["model"]["name"] = "llama\ntouch PWNED\n#"
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(data))
    assert run(["export", str(tmp_path / "plan.yaml"), "--to", "maxtext", "--out", str(tmp_path / "o")]) == 2
    said = capsys.readouterr().err
    assert "request.model.name: character '\\n' in 'llama\\ntouch PWNED\\n#' cannot be printed" in said
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("text", [*ATTACKS, "plain", "", "ü ∑ 漢 🚀"])
def test_quoted_texts_are_read_back(text: str) -> None:
    assert one_line(text) == text
    assert ast.literal_eval(python_text(text)) == text
    assert ast.literal_eval(f'"""{docstring_text(text)}."""') == f"{text}."
    shown = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c 'import sys; sys.stdout.buffer.write(sys.argv[1].encode())' {shell_text(text)}"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert shown.stdout.decode() == text
