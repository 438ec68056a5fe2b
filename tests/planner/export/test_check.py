"""``--check`` as far as it goes without a trainer: the request, the answer, what is read back otherwise."""

import json
import sys

import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.export import check
from planner.export.check import check_export, run_checker
from planner.export.folder import write_export
from planner.export.own_compile import compile_export, memory_of
from planner.export.python import python_of
from planner.export.run import export_plan
from planner.trainers.maxtext.compile import COMPILER, topology_words


def test_the_python_is_the_one_given_else_the_trainers_else_this_one(monkeypatch):
    monkeypatch.delenv("LCPLAN_MAXTEXT_PYTHON", raising=False)
    assert python_of("maxtext", None) == sys.executable
    monkeypatch.setenv("LCPLAN_MAXTEXT_PYTHON", "/trainer/python")
    assert python_of("maxtext", None) == "/trainer/python"
    assert python_of("maxtext", "/given") == "/given"


def test_a_trainer_that_is_not_there_is_a_failed_stage_with_the_way_out(named_plans, tmp_path):
    export = export_plan(named_plans["8b-8k-h100"], "megatron")
    write_export(tmp_path, export.files)
    with pytest.raises(StageFailedError, match=r"megatron-core is not installed in .*LCPLAN_MEGATRON_PYTHON"):
        check_export(export, tmp_path, python=sys.executable)


def test_a_python_that_does_not_run_is_a_failed_stage(named_plans, tmp_path):
    export = export_plan(named_plans["8b-8k-h100"], "megatron")
    with pytest.raises(StageFailedError, match="the check did not run"):
        check_export(export, tmp_path, python=str(tmp_path / "no-python"))


def test_a_checker_that_dies_is_told_with_its_last_words(tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import sys; sys.exit('out of luck')")
    with pytest.raises(StageFailedError, match="ended with code 1 and no answer: out of luck"):
        run_checker(sys.executable, script, requests=[{}])


def test_what_the_trainer_reads_otherwise_is_named(named_plans, tmp_path, monkeypatch):
    export = export_plan(named_plans["8b-8k-h100"], "megatron")
    facts = {"devices": 8, "seq_len": 8192, "global_batch": 32, "mesh": {"data": 1, "fsdp": 4, "context": 1, "tensor": 2}}
    answer = {"package": "megatron-core", "version": "0", "accepted": True, "said": "", "seconds": 1.0, "facts": facts}
    monkeypatch.setattr(check, "run_checker", lambda *_, **__: [answer])
    result = check_export(export, tmp_path)
    assert result.accepted
    assert not result.good
    assert result.mismatches == (
        "global_batch: the plan has 16, the trainer 32",
        "fsdp: the plan has 8, the trainer 4",
        "tensor: the plan has 1, the trainer 2",
    )
    assert json.dumps(result.to_json())


def test_a_refusal_carries_the_trainers_words(named_plans, tmp_path, monkeypatch):
    export = export_plan(named_plans["8b-8k-h100"], "megatron")
    answer = {"package": "p", "version": "0", "accepted": False, "said": "AssertionError: no", "seconds": 1.0, "facts": {}}
    monkeypatch.setattr(check, "run_checker", lambda *_, **__: [answer])
    result = check_export(export, tmp_path)
    assert (result.good, result.said, result.mismatches) == (False, "AssertionError: no", ())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("8b-256k-v5p", ["compile_topology=v5p-64", "compile_topology_num_slices=1"]),
        ("8b-128k-two-slices", ["compile_topology=v5p-64", "compile_topology_num_slices=2"]),
        ("8b-8k-v6e", ["compile_topology=v6e-64", "compile_topology_num_slices=1"]),
    ],
)
def test_maxtexts_name_of_a_slice(named_plans, name, words):
    export = export_plan(named_plans[name], "maxtext")
    assert topology_words(export.translation.job) == tuple(words)
    assert export.check_request == {"overrides": tuple(words)}


LINE = (
    "Memory analysis: CompiledMemoryStats(generated_code_size_in_bytes=47302144, argument_size_in_bytes=3023343616, "
    "output_size_in_bytes=3012863744, alias_size_in_bytes=3012857856, temp_size_in_bytes=15057635232, "
    "host_generated_code_size_in_bytes=0, host_argument_size_in_bytes=0, host_temp_size_in_bytes=7)"
)
"""As MaxText 0.2.5's train_compile printed it for Llama 3 8B, 256k, context 16 x tensor 2 on v5p-64."""


def test_the_memory_of_train_compile_is_read():
    memory = memory_of(COMPILER, f"noise\n{LINE}\n", topology="v5p-64", seconds=81.2)
    assert (memory.argument_bytes, memory.temp_bytes) == (3023343616, 15057635232)
    assert memory.total_bytes == 3023343616 + 3012863744 + 15057635232 - 3012857856


def test_a_failed_train_compile_ends_with_its_last_words():
    with pytest.raises(StageFailedError, match="train_compile failed: ValueError: no such axis"):
        memory_of(COMPILER, "ValueError: no such axis", topology="v5p-64", seconds=1.0)


@pytest.mark.parametrize(
    ("trainer", "name"), [("megatron", "8b-8k-h100"), ("maxtext", "8b-8k-h100"), ("levanter", "8b-8k-v6e")]
)
def test_compile_needs_a_trainer_that_compiles_for_the_hardware(named_plans, tmp_path, trainer, name):
    with pytest.raises(BadInputError, match="needs --to maxtext and a plan for TPU"):
        compile_export(export_plan(named_plans[name], trainer), tmp_path)
