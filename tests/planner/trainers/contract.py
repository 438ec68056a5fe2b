"""The contract that every registered trainer keeps; a subclass gives the fixture or parameter ``name``."""

from __future__ import annotations

import ast
import subprocess
import sys

from cost_models.inputs.table import CODES
from lcplan import catalog
from lcplan.evidence.plan import Plan
from lcplan.formats.errors import BadInputError
from planner.export.run import Export, export_plan
from planner.imports.read import read_file
from planner.trainers import trainer
from planner.trainers.common.export_files import LAUNCH_FILE
from planner.trainers.common.imported import mesh_text
from planner.trainers.common.interface import OWN_STEP
from planner.trainers.common.known_keys import known_keys
from planner.trainers.registry import checker, folder_of, own_compiler

LEAST_EXPORTED = 6
HOUSE = ("cost_models", "lcplan", "planner", "strategies")
"""Packages that a checker cannot import: it runs in the trainer's own Python."""
MACHINES = {"gpu": "gb200-nvl72", "tpu": "tpu-v5p-64", "cpu": "cpu-host"}


def exports_of(plans: dict[str, Plan], name: str) -> tuple[dict[str, Export], dict[str, str]]:
    """The plans that a trainer runs as its files, and the reason for each of the others."""
    exported, refused = {}, {}
    for label, plan in plans.items():
        try:
            exported[label] = export_plan(plan, name)
        except BadInputError as error:
            refused[label] = str(error)
    return exported, refused


def imports_of(tree: ast.AST) -> set[str]:
    """The top packages that a module imports anywhere."""
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in found}


class TrainerContract:
    def test_the_record_is_complete(self, name):
        target = trainer(name)
        assert target.name == name
        assert target.title
        assert target.package
        assert target.file
        assert target.kinds
        assert target.own_step or target.version.partition(".dev")[0] in target.title
        rules = [rule.name for rule in target.rules]
        assert len(set(rules)) == len(rules)
        assert all(rule.startswith(f"{name}-") for rule in rules)

    def test_its_knobs_cover_every_value_that_lcplan_has(self, name):
        """A value that a table forgets would be a crash for the user who has it in a plan."""
        target, own = trainer(name), trainer(OWN_STEP)
        for kind in target.kinds:
            hardware = catalog.hardware(MACHINES[kind])
            knobs = target.knobs(hardware, target.jax)
            assert set(knobs) == set(own.knobs(hardware, own.jax))
            for knob, facts in knobs.items():
                assert set(facts.runs) == set(CODES[knob])
                assert facts.values, f"{name} runs no {knob}"
                assert facts.why or all(facts.exact(value) for value in facts.runs)
                for choices in facts.runs.values():
                    assert set(choices) <= set(CODES[knob])

    def test_plans_are_exported_or_refused_with_a_reason(self, name, named_plans):
        exported, refused = exports_of(named_plans, name)
        assert len(exported) >= LEAST_EXPORTED
        assert all(words.startswith(f"{name}: ") and len(words) > len(f"{name}: ") for words in refused.values())

    def test_an_export_is_its_file_and_a_launch_script(self, name, named_plans, tmp_path):
        target = trainer(name)
        exported, _ = exports_of(named_plans, name)
        export = next(iter(exported.values()))
        assert export.files[target.file]
        script = tmp_path / LAUNCH_FILE
        script.write_text(export.files[LAUNCH_FILE])
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
        assert target.title in export.files[LAUNCH_FILE]
        assert export.to_json()["trainer"]["name"] == name

    def test_what_it_does_not_run_is_refused_with_a_reason(self, name, ask):
        target = trainer(name)
        dense = catalog.model("llama3-8b")
        for kind, machine in MACHINES.items():
            refused = target.refusals(catalog.hardware(machine), dense)
            assert bool(refused) == (kind not in target.kinds), (kind, refused)
        mixture = catalog.model("mixtral-8x7b")
        refused = target.refusals(catalog.hardware(MACHINES[target.kinds[0]]), mixture)
        assert any("has experts" in words for words in refused) != target.experts

    def test_its_file_gives_the_same_mesh_back(self, name, named_plans, tmp_path):
        target = trainer(name)
        exported, _ = exports_of(named_plans, name)
        for label, export in exported.items() if target.reads else ():
            folder = tmp_path / label
            folder.mkdir()
            for file, text in export.files.items():
                (folder / file).write_text(text)
            job = export.translation.job
            file = str(folder / target.file)
            imported = read_file(name, file, devices=job.strategy.devices, hardware=job.hardware.name)
            assert imported.options["mesh"] == mesh_text(job.strategy.mesh.model_dump())
            assert imported.unknown == ()
            assert not set(target.reads.unsaid) & set(imported.options)

    def test_its_folder_holds_what_its_record_promises(self, name):
        target, folder = trainer(name), folder_of(name)
        needed = {"facts.py", "export.py", "check.py"}
        needed |= {"read.py", "keys.txt"} if target.reads else set()
        needed |= {"compile.py"} if target.compiles else set()
        needed |= set() if target.own_step else {"requirements.txt"}
        assert needed <= {file.name for file in folder.iterdir()}
        assert (folder / "read.py").exists() == (target.reads is not None)
        assert (folder / "compile.py").exists() == (target.compiles is not None)
        if target.compiles:
            assert own_compiler(name).command

    def test_its_checker_imports_nothing_of_lcplan(self, name):
        tree = ast.parse(checker(name).read_text())
        assert not imports_of(tree) & set(HOUSE)
        outside = {top for node in tree.body for top in imports_of(node) if isinstance(node, ast.Import | ast.ImportFrom)}
        assert outside - set(sys.stdlib_module_names) <= {"lcplan_checker", "yaml"}
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert "check" in functions
        assert ("keys" in functions) == (trainer(name).reads is not None)

    def test_its_package_is_pinned_where_its_keys_come_from(self, name):
        target, folder = trainer(name), folder_of(name)
        pin = f"{target.package}=={target.version}"
        if not target.own_step:
            assert pin in (folder / "requirements.txt").read_text().splitlines()
        if target.reads:
            assert known_keys(name)
            assert (folder / "keys.txt").read_text().startswith(f"# Keys of {target.package} {target.version}, ")
