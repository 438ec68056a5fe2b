"""The hash of a step file: its content and the local modules that it imports, not its place."""

import pytest
from own_steps import STEP, written

from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError
from lcplan.spec.own_step import StepStrategy
from planner.measure.engines.remote_job import sent
from planner.measure.step_file.file import StepFile, local_files
from planner.measure.step_file.job import StepJob, StepWork
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits


def work(file):
    strategy = StepStrategy(mesh={"rows": 2, "cols": 1}, knobs={"remat": "full", "layers": 2})
    job = StepJob(file=StepFile.of(file), hardware=hardware("cpu-host"), strategy=strategy, workload={"seq_len": 8})
    return StepWork(job, toolchain=probe())


def test_local_imports_are_in_the_hash(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("from .deep import x\n")
    (tmp_path / "parts" / "deep.py").write_text("x = 1\n")
    (tmp_path / "unused.py").write_text("y = 1\n")
    file = written(tmp_path, f"from parts import x\n{STEP}")
    assert [one.name for one in local_files(file)] == ["my_step.py", "__init__.py", "deep.py"]
    before = StepFile.of(file)
    (tmp_path / "unused.py").write_text("y = 2\n")
    assert StepFile.of(file) == before
    (tmp_path / "parts" / "deep.py").write_text("x = 2\n")
    assert StepFile.of(file).digest != before.digest


def test_versions_of_imported_packages_are_known(step_file):
    assert "jax" in StepFile.of(step_file).packages


def test_key_follows_the_content_and_not_the_place(tmp_path, step_file):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    key = work(step_file).key
    assert work(written(elsewhere)).key == key
    assert work(written(elsewhere, STEP.replace("0.1", "0.2"))).key != key


def test_no_message_to_another_machine_names_a_file(step_file):
    with pytest.raises(BadInputError, match="lcplan's own programs only"):
        sent(work(step_file), PoolLimits())
