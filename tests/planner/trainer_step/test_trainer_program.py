"""``--program trainer``: refusals, the job of a file, and what its compile counts."""

import os
from pathlib import Path

import pytest

from lcplan import catalog
from lcplan.evidence.measurement import Compiled
from lcplan.strategy import Strategy
from planner.cli.main import run
from planner.measure.targets.target import Target
from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.trainer_step.job import TrainerJob, TrainerWork, WorkerTrainerJob
from planner.measure.trainer_step.maxtext import REPLACED, STAND_IN, _settings
from planner.trainers.registry import reader

RUN = """# our run
model_name: llama3-8b  # public
max_target_length: 8192
per_device_batch_size: 1
ici_fsdp_parallelism: 8
remat_policy: none
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a policy that MaxText does not run."""
    path = tmp_path / "run.yml"
    path.write_text(RUN)
    return path


SEARCH = ("search", "--model", "llama3-8b", "--seq", "8k", "--hw", "dgx-h100", "--program", "trainer")


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ((), 2, "name it: --for maxtext"),
        (("--for", "maxtext", "--stages", "modelled"), 2, "--stages modelled: --program trainer compiles"),
        (("--for", "maxtext", "--tune", "4"), 2, "--tune 4: the tuner compiles lcplan's own step"),
        (("--for", "maxtext", "--engine", "dask:2"), 2, "--engine dask:2: the trainer's step is compiled on this machine"),
        (("--for", "megatron"), 2, "lcplan does not compile Megatron"),
        (("--for", "maxtext"), 3, "maxtext is not installed in"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_a_way_out(more, code, words, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("LCPLAN_MAXTEXT_PYTHON", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run([*SEARCH, *more]) == code
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir()), "a refused search leaves no folder"


def test_a_step_file_has_its_own_program(tmp_path, capsys):
    assert run(["search", "--step", str(tmp_path / "s.py"), "--hw", "dgx-h100", "--program", "trainer"]) == 2
    assert "--program does not go with --step: the step file is the program" in capsys.readouterr().err


def test_an_estimate_asks_for_a_file_and_its_trainer(file, capsys, monkeypatch):
    monkeypatch.delenv("LCPLAN_MAXTEXT_PYTHON", raising=False)
    assert run(["estimate", *SEARCH[1:], "--mesh", "fsdp=8", "--compile"]) == 2
    assert "give it with --from-maxtext FILE --compile" in capsys.readouterr().err
    assert run(["estimate", "--from-maxtext", str(file), "--hw", "dgx-h100", "--program", "trainer", "--compile"]) == 3
    assert "maxtext is not installed in" in capsys.readouterr().err


def test_a_policy_that_is_not_run_is_told(file, capsys):
    assert run(["estimate", "--from-maxtext", str(file), "--hw", "dgx-h100"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "remat_policy none over scanned layers compiles to the same program as full" in shown
    assert "fsdp=8 remat=full" in shown


def test_only_the_file_decides_the_key(file):
    hardware, strategy = catalog.hardware("dgx-h100"), Strategy.model_validate({"mesh": {"fsdp": 8}, "backend": "nccl"})

    def key(**settings) -> str:
        job = {"trainer": "maxtext", "version": "0.2.5", "settings": settings, "hardware": hardware, "strategy": strategy}
        return TrainerWork(TrainerJob.model_validate(job), toolchain=probe()).key

    assert key(run_name="a", remat_policy="full") == key(run_name="b", remat_policy="full")
    assert key(remat_policy="full") != key(remat_policy="minimal")


@pytest.mark.parametrize(
    ("said", "platform", "attention", "notes"),
    [
        ({"attention": "cudnn_flash_te"}, "cuda", "cudnn_flash_jax", [REPLACED]),
        ({"attention": "cudnn_flash_te", "ici_context_parallelism": 4}, "cuda", "cudnn_flash_te", [STAND_IN]),
        ({"attention": "dot_product"}, "cuda", "dot_product", []),
        ({"attention": "flash", "ici_context_parallelism": 4}, "tpu", "flash", []),
    ],
)
def test_a_replaced_kernel_is_named(said, platform, attention, notes):
    target = Target(name="absent", rung="compiled:target", platform=platform, devices=8)
    job = WorkerTrainerJob(trainer="maxtext", version="0.2.5", settings=said, slices=1, target=target)
    settings, found, stand_in = _settings(job)
    assert settings["attention"] == attention
    assert found == notes
    assert stand_in == (notes == [STAND_IN])


def test_the_trainers_own_compile_counts_as_it_is(file):
    from planner.cli.build import RequestOptions, build_request
    from planner.imports.own_plan import own_plan
    from planner.imports.verdict import of_the_file

    imported = reader("maxtext")(str(file), 8)
    options = {key: value for key, value in imported.options.items() if key not in ("hw",)}
    request = build_request(RequestOptions.model_validate({**options, "hw": "dgx-h100"}))
    plan = own_plan(request, imported, ("nccl",))
    facts = {"rung": "compiled:target", "target": "absent", "jax": "0.11.2", "finished_at": "", "compile_s": 1.0}
    total = 30 * 2**30
    compiled = Compiled.model_validate(facts | {"total_bytes": total, "step_of": "MaxText 0.2.5"})
    candidate = plan.candidate.with_compiled(compiled, request.budget_bytes)
    assert of_the_file(candidate, plan.opinion, request=request).best.memory_bytes == total


def _trainer_python() -> Toolchain | None:
    python = os.environ.get("LCPLAN_MAXTEXT_PYTHON", "")
    found = probe(python) if python else None
    return found if found is not None and "maxtext" in found.versions and found.targets["gpu"] is True else None


@pytest.mark.slow
@pytest.mark.trainers
def test_maxtext_compiles_its_own_file_for_absent_gpus(file, tmp_path, capsys, monkeypatch):
    if _trainer_python() is None:
        pytest.skip("LCPLAN_MAXTEXT_PYTHON has no MaxText with XLA's CUDA compiler")
    monkeypatch.chdir(tmp_path)
    file.write_text(RUN.replace("remat_policy: none", "remat_policy: full\nattention: cudnn_flash_te"))
    assert run(["estimate", "--from-maxtext", str(file), "--hw", "dgx-h100", "--compile"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "compiled memory is that of MaxText 0.2.5's own step" in shown
    assert "attention=cudnn_flash_te is compiled as cudnn_flash_jax" in shown
