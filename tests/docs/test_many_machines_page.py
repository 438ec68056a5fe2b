"""The files for Slurm and Kubernetes are valid, and the options in them are the program's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from planner.cli.commands.worker import command

DOCS = Path(__file__).parents[2] / "docs"
SBATCH, JOB = DOCS / "examples" / "lcplan-workers.sbatch", DOCS / "examples" / "lcplan-workers.yaml"
OPTIONS = {option for parameter in command.params for option in parameter.opts}


def test_the_sbatch_file_is_a_script_with_its_options_on_top() -> None:
    subprocess.run(["bash", "-n", str(SBATCH)], check=True)
    lines = SBATCH.read_text().splitlines()
    directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert lines[0] == "#!/usr/bin/env bash"
    assert directives
    assert max(directives) < first  # sbatch reads none below the first command
    assert {word for word in lines[-1].split() if word.startswith("--")} <= OPTIONS


def test_the_sbatch_file_asks_for_the_study() -> None:
    run = subprocess.run(["bash", str(SBATCH)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert run.returncode == 1
    assert "set it to the URL" in run.stderr


def test_the_kubernetes_file_is_a_secret_and_a_job_that_reads_it() -> None:
    secret, job = yaml.safe_load_all(JOB.read_text())
    assert (secret["kind"], job["apiVersion"], job["kind"]) == ("Secret", "batch/v1", "Job")
    assert job["spec"]["parallelism"] == job["spec"]["completions"] > 1
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # a Job takes no other
    (container,) = pod["containers"]
    assert container["command"][:4] == ["lcplan", "worker", "--study", "$(LCPLAN_STUDY)"]
    assert {word for word in container["command"] if word.startswith("--")} <= OPTIONS
    reference = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert reference["name"] == secret["metadata"]["name"]
    assert reference["key"] in secret["stringData"]


@pytest.mark.parametrize("file", [SBATCH, JOB])
def test_the_page_names_its_files(file: Path) -> None:
    assert f"(examples/{file.name})" in (DOCS / "many-machines.md").read_text()
