"""The plan file: whole on disk, readable without the catalogue, strict about what it does not know."""

import errno
import os
import subprocess
import sys

import pytest

import lcplan
from lcplan.catalog import hardware, model
from lcplan.evidence.measurement import Compiled
from lcplan.evidence.plan import PLAN_SCHEMA_VERSION, Evidence, Launch, Plan, Request
from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import read_yaml, write_yaml
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


@pytest.fixture
def plan():
    machine = hardware("tpu-v4-32")
    compiled = Compiled(
        rung="compiled:target", target="v4", jax="0.10.1", finished_at="2026-11-27T00:00:00Z", compile_s=1.5, total_bytes=3
    )
    return Plan(
        lcplan_version=lcplan.__version__,
        request=Request(
            model=model("llama3.1-8b"),
            hardware=machine,
            workload=Workload(seq_len=262144, global_batch=16),
            budget_bytes=machine.usable_bytes,
            objective="tokens_per_s",
        ),
        strategy=Strategy(mesh=Mesh(context=8, tensor=2), backend="ici"),
        evidence=Evidence(estimate={"step_s": 1.25, "memory_bytes": {"total": 7}, "fits": True}, compiled=compiled),
        xla_flags=("--xla_a=true", "--xla_b=1e9"),
        environment={"A": "1e9", "B": "yes", "C": "0123"},
        launch=Launch(processes=4, devices_per_process=4),
        toolchain={"jax": "0.10.1"},
    )


def test_a_saved_plan_loads_as_it_was(plan, tmp_path):
    plan.save(tmp_path / "plan.yaml")
    assert Plan.load(tmp_path / "plan.yaml") == plan


def test_what_a_trainer_reads(plan):
    assert plan.mesh_axes == ("data", "fsdp", "context", "expert", "tensor")
    assert plan.mesh_shape == (1, 1, 8, 1, 2)
    assert plan.strategy.devices == 16


def change(plan, tmp_path, **changes):
    path = tmp_path / "plan.yaml"
    data = {**plan.model_dump(mode="json"), **changes}
    write_yaml(path, {key: value for key, value in data.items() if value is not ...})
    with pytest.raises(BadInputError) as error:
        Plan.load(path)
    return str(error.value).replace(f"{path}: ", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schema_version": PLAN_SCHEMA_VERSION + 1},
            "schema_version 3 is newer than the 2 that this lcplan reads; upgrade lcplan",
        ),
        ({"schema_version": ...}, "not a plan: missing key 'schema_version'"),
        ({"schema_version": True}, "schema_version: True is not a whole number from 1"),
        ({"schema_version": "1"}, "schema_version: '1' is not a whole number from 1"),
        ({"schema_version": 0}, "schema_version: 0 is not a whole number from 1"),
        ({"strategi": 1}, "unknown key 'strategi'; did you mean 'strategy'?"),
        ({"strategy": {"mesh": {"contxt": 2}}}, "unknown key 'strategy.mesh.contxt'; did you mean 'context'?"),
        ({"launch": ...}, "missing key 'launch'"),
    ],
)
def test_what_is_refused(plan, tmp_path, changes, message):
    assert change(plan, tmp_path, **changes) == message


def test_a_newer_plan_is_told_so_even_with_unknown_fields(plan, tmp_path):
    assert change(plan, tmp_path, schema_version=9, new_field=1).startswith("schema_version 9 is newer than the 2")


@pytest.mark.parametrize(
    ("stored", "now"), [("minimal", "save-except-mlp"), ("none", "save-all"), ("dots", "save-dots"), ("full", "full")]
)
def test_a_plan_of_version_1_keeps_the_sets_that_its_remat_names_meant(plan, tmp_path, stored, now):
    path = tmp_path / "plan.yaml"
    data = plan.model_dump(mode="json")
    write_yaml(path, data | {"schema_version": 1, "strategy": data["strategy"] | {"remat": stored}})
    assert Plan.load(path) == plan.model_copy(update={"strategy": plan.strategy.model_copy(update={"remat": now})})


def test_minimal_in_a_plan_of_today_is_maxtexts(plan, tmp_path):
    path = tmp_path / "plan.yaml"
    data = plan.model_dump(mode="json")
    write_yaml(path, data | {"strategy": data["strategy"] | {"remat": "minimal"}})
    assert Plan.load(path).strategy.remat == "save-dots"


def test_no_plan_at_all(tmp_path):
    with pytest.raises(BadInputError, match="No such file or directory"):
        Plan.load(tmp_path / "plan.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(BadInputError, match="not a plan: missing key 'schema_version'"):
        Plan.load(tmp_path / "list.yaml")


def test_a_full_disk_leaves_the_old_plan(plan, tmp_path, monkeypatch):
    path = tmp_path / "plan.yaml"
    plan.save(path)
    before = read_yaml(path)

    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        plan.model_copy(update={"lcplan_version": "9"}).save(path)
    assert read_yaml(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.yaml"]


def test_loading_reads_no_catalogue_and_nothing_heavy(plan, tmp_path):
    plan.save(tmp_path / "plan.yaml")
    code = (
        "import sys, lcplan; plan = lcplan.Plan.load(sys.argv[1]); print(plan.mesh_shape)\n"
        "print([n for n in ('jax', 'numpy', 'optuna', 'flax', 'lcplan.catalog', 'lcplan.hf') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "plan.yaml"], capture_output=True, text=True, check=True)
    assert run.stdout == "(1, 1, 8, 1, 2)\n[]\n"
