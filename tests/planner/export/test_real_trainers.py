"""The trainers' own packages take the exports, mean the same by them, and refuse what is broken."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "trainers"))

from contract import exports_of
from export_plans import ABLE, mixtures
from real_trainers import REAL, real_python

from lcplan.spec.model import ModelSpec
from planner.export.check import CheckResult, check_export, check_exports
from planner.export.folder import write_export
from planner.export.run import export_plan
from planner.trainers import all_trainers
from planner.trainers.registry import checker

pytestmark = pytest.mark.trainers


@pytest.fixture
def python() -> Callable[[str], str]:
    def _python(trainer: str) -> str:
        found = real_python(trainer)
        if found is None:
            pytest.skip(f"no Python with {trainer}: tests/trainers/setup_venvs.sh makes one")
        return found

    return _python


def checked(plan, trainer: str, *, folder: Path, python: str, change: Callable[[Path], None] | None = None) -> CheckResult:
    export = export_plan(plan, trainer)
    write_export(folder, export.files)
    if change is not None:
        change(folder / export.translation.trainer.file)
    return check_export(export, folder, python=python)


@pytest.mark.parametrize("trainer", REAL)
def test_the_real_package_accepts_and_reads_every_plan_back(named_plans, tmp_path, python, trainer):
    command = python(trainer)
    assert len(ABLE[trainer]) >= 6
    exports = [(export_plan(named_plans[name], trainer), tmp_path / name) for name in ABLE[trainer]]
    for export, folder in exports:
        write_export(folder, export.files)
    wrong = {}
    for name, result in zip(ABLE[trainer], check_exports(exports, command), strict=True):
        if not result.good:
            wrong[name] = result.said or result.mismatches
        elif "parameters" in result.facts:
            assert result.facts["parameters"] == _parameters(trainer, named_plans[name].request.model)
    assert wrong == {}


@pytest.mark.parametrize("trainer", [one.name for one in all_trainers() if one.experts and not one.own_step])
def test_the_real_package_accepts_and_reads_every_mixture_back(tmp_path, python, trainer):
    exports = [(export, tmp_path / name) for name, export in exports_of(mixtures(), trainer)[0].items()]
    assert len(exports) >= 2
    for export, folder in exports:
        write_export(folder, export.files)
    for (export, _), result in zip(exports, check_exports(exports, python(trainer)), strict=True):
        job = export.translation.job
        assert result.good, result.said or result.mismatches
        assert result.facts["experts"] == [job.model.experts.count, job.model.experts.active, job.model.experts.d_ff]
        assert result.facts["mesh"].get("expert", 1) == job.strategy.mesh.expert


def _parameters(trainer: str, model: ModelSpec) -> object:
    """The model as the trainer's checker reports it: MaxText its sizes, torchtitan the parameters that it built."""
    sizes = [model.layers, model.d_model, model.d_ff, model.heads, model.kv_heads, model.head_dim, model.vocab]
    return sizes if trainer == "maxtext" else model.parameters


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        text = file.read_text()
        assert old in text, f"{old!r} is not in {file.name}"
        file.write_text(text.replace(old, new))

    return change


BROKEN = [
    ("maxtext", "8b-256k-gb200", replaced("remat_policy: full", "remat_policy: fulll"), "remat_policy 'fulll' is not one of"),
    ("maxtext", "8b-256k-gb200", replaced("attention: cudnn_flash_te", "attention: cudnn_flash"), "attention 'cudnn_flash'"),
    ("maxtext", "8b-256k-gb200", replaced("ici_tensor_parallelism: 2", "ici_tensor_parallelism: 4"), "multiply to 64"),
    ("maxtext", "8b-256k-gb200", replaced("ici_tensor_parallelism", "ici_tensr_parallelism"), "'ici_tensr_parallelism' not in"),
    ("maxtext", "8b-256k-v5p", replaced("max_target_length: 262144", "max_target_length: 262400"), "number of vocab tiles"),
    ("megatron", "8b-256k-gb200", replaced("--seq-length 262144", "--seq-length 262160"), "multiple of 2"),
    ("megatron", "8b-256k-gb200", replaced("--cp-comm-type p2p", "--cp-comm-type ptop"), "--cp-comm-type ptop is not one of"),
    ("megatron", "8b-256k-gb200", replaced("--cp-comm-type p2p", "--cp-comm-type a2a"), "do not divide"),
    ("megatron", "8b-256k-gb200", replaced("--swiglu", "--swiglo"), "exit 2"),
    ("torchtitan", "8b-256k-gb200", replaced("seq_len=262144", "seq_len=262176"), "is no multiple of 64"),
    ("torchtitan", "8b-256k-gb200", replaced("tensor_parallel_degree=2", "tensor_parallel_degree=3"), "Invalid parallel dims"),
    (
        "torchtitan",
        "8b-256k-gb200",
        replaced("context_parallel_degree", "context_paralel_degree"),
        "unexpected keyword argument",
    ),
    ("accelerate", "8b-256k-gb200", replaced("cp_backend: torch", "cp_backend: te"), "cp_backend must be one of"),
    ("accelerate", "8b-256k-gb200", replaced("tp_size: 2", "tp_size: 4"), "sizes multiply to 64"),
    ("accelerate", "8b-256k-gb200", replaced("config_cp_size", "config_cp_sise"), "cp_sise is unknown and would be dropped"),
    ("deepspeed", "8b-64k-ulysses", replaced('"stage": 3', '"stage": 5'), "ValidationError"),
    (
        "deepspeed",
        "8b-64k-ulysses",
        replaced('"train_batch_size": 8', '"train_batch_size": 9'),
        "Check batch related parameters",
    ),
    (
        "deepspeed",
        "8b-64k-ulysses",
        replaced('"sequence_parallel_size": 8', '"sequence_parallel_size": 64'),
        "does not divide 32",
    ),
    ("levanter", "70b-8k-gb200", replaced("num_kv_heads", "num_kv_head"), "DecodingError"),
    (
        "levanter",
        "70b-8k-gb200",
        replaced("gradient_checkpointing: true", "gradient_checkpointing: som"),
        "Invalid checkpoint policy",
    ),
    ("levanter", "70b-8k-gb200", replaced("tensor: 4}", "tensor: 8}"), "must equal devices_per_slice"),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case[0]}-{case[3][:24]}")
def test_a_broken_configuration_is_refused(named_plans, tmp_path, python, case):
    trainer, name, change, said = case
    result = checked(named_plans[name], trainer, folder=tmp_path, python=python(trainer), change=change)
    assert not result.accepted
    assert said in result.said


def test_an_export_that_means_another_plan_is_noticed(named_plans, tmp_path, python):
    change = replaced("gradient_accumulation_steps: 2", "gradient_accumulation_steps: 4")
    result = checked(named_plans["8b-256k-gb200"], "maxtext", folder=tmp_path, python=python("maxtext"), change=change)
    assert result.accepted
    assert result.mismatches == (
        "global_batch: the plan has 2, the trainer 4",
        "microbatches: the plan has 2, the trainer 4",
    )


def test_experts_that_mean_another_mixture_are_noticed(tmp_path, python):
    plan = mixtures()["mixtral-8k-v5p"]
    change = replaced("num_experts: 8", "num_experts: 16")
    result = checked(plan, "maxtext", folder=tmp_path, python=python("maxtext"), change=change)
    assert result.mismatches == (
        "experts: the plan's number, experts of a token and width are [8, 2, 14336], the trainer's [16, 2, 14336]",
    )


def test_flags_that_the_trainers_jax_lacks_would_abort_it(new_plan, tmp_path, python):
    """Why exports are written for the trainer's jax: NVSHMEM's flag under jax 0.11 ends the process."""
    from lcplan.formats.errors import StageFailedError

    plan = new_plan("llama3-8b", "gb200-nvl72", seq=262144, context=16, tensor=2, backend="nvshmem")
    export = export_plan(plan, "maxtext", jax="0.10.1")
    write_export(tmp_path, export.files)
    with pytest.raises(StageFailedError, match="xla_gpu_experimental_enable_nvshmem"):
        check_export(export, tmp_path, python=python("maxtext"))


@pytest.mark.slow
@pytest.mark.tpu_target
def test_maxtexts_train_compile_takes_the_export(named_plans, tmp_path, python):
    import subprocess

    from planner.export.own_compile import compile_export

    command = python("maxtext")
    has = subprocess.run([command, "-c", "import libtpu, tokamax, qwix"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip("MaxText's train_compile needs more: tests/trainers/setup_venvs.sh maxtext-compile")
    export = export_plan(named_plans["8b-256k-v5p"], "maxtext")
    write_export(tmp_path, export.files)
    compiled = compile_export(export, tmp_path, python=command)
    state = 12 * named_plans["8b-256k-v5p"].request.model.parameters / 32  # fp32 parameters and two moments over 32 devices
    assert compiled.argument_bytes == pytest.approx(state, rel=0.01)
    assert compiled.temp_bytes > 0


@pytest.mark.parametrize("trainer", [one.name for one in all_trainers() if one.reads])
def test_keys_are_those_of_the_packages(python, trainer):
    """The key lists that importers know by are what the packages list today."""
    import subprocess

    from planner.trainers.checking import lcplan_checker
    from planner.trainers.common.known_keys import known_keys

    command = [python(trainer), lcplan_checker.__file__, str(checker(trainer)), "--keys"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = {line for line in done.stdout.splitlines() if line and not line.startswith(("#", "[", " "))}
    assert known_keys(trainer) <= listed


def test_the_exported_yaml_of_bridge_names_real_fields(named_plans, tmp_path, python):
    export = export_plan(named_plans["8b-256k-gb200"], "megatron")
    write_export(tmp_path, export.files)
    file = tmp_path / "bridge.overrides"
    file.write_text(file.read_text() + "model.context_paralel_size=2\n")
    result = check_export(export, tmp_path, python=python("megatron"))
    assert "model.context_paralel_size is no field" in result.said
    assert json.dumps(result.to_json())
