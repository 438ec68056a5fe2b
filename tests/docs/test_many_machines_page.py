"""The files for Slurm, Kubernetes and Parsl are valid, and their options are those of the programs."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
SBATCH, JOB, PARSL = (DOCS / "examples" / name for name in ("dask-workers.sbatch", "dask-workers.yaml", "parsl-slurm.py"))


def _worker_options() -> set[str]:
    worker = pytest.importorskip("distributed.cli.dask_worker").main
    return {option for parameter in worker.params for option in (*parameter.opts, *parameter.secondary_opts)}


def test_the_sbatch_file_is_a_script_with_its_options_on_top() -> None:
    subprocess.run(["bash", "-n", str(SBATCH)], check=True)
    lines = SBATCH.read_text().splitlines()
    directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert lines[0] == "#!/usr/bin/env bash"
    assert directives
    assert max(directives) < first  # sbatch reads none below the first command
    command = SBATCH.read_text().partition("exec dask worker")[2]
    assert {word for word in command.split() if word.startswith("--")} <= _worker_options()


def test_the_sbatch_file_asks_for_the_scheduler() -> None:
    run = subprocess.run(["bash", str(SBATCH)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert run.returncode == 1
    assert "set it to the address" in run.stderr


def test_the_kubernetes_file_is_a_scheduler_and_a_job_that_finds_it() -> None:
    deployment, service, job = yaml.safe_load_all(JOB.read_text())
    assert (deployment["kind"], service["kind"], job["apiVersion"], job["kind"]) == ("Deployment", "Service", "batch/v1", "Job")
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert job["spec"]["parallelism"] == job["spec"]["completions"] > 1
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # a Job takes no other
    (container,) = pod["containers"]
    port = service["spec"]["ports"][0]["port"]
    assert container["command"][:3] == ["dask", "worker", f"tcp://{service['metadata']['name']}:{port}"]
    assert {word for word in container["command"] if word.startswith("--")} <= _worker_options()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its executor looks for its own address
def test_the_parsl_file_is_a_configuration_with_options_that_parsl_has() -> None:
    parsl = pytest.importorskip("parsl")
    names: dict[str, object] = {}
    exec(compile(PARSL.read_text(), PARSL.name, "exec"), names)  # noqa: S102 - an example of this project
    assert isinstance(names["config"], parsl.Config)
    assert ast.get_docstring(ast.parse(PARSL.read_text()))


@pytest.mark.parametrize("file", [SBATCH, JOB, PARSL])
def test_the_page_names_its_files(file: Path) -> None:
    assert f"(examples/{file.name})" in (DOCS / "many-machines.md").read_text()
