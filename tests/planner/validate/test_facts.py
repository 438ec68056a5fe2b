import json
from pathlib import Path

import pytest
from made import data, row

from cost_models.inputs.program import PROGRAMS
from lcplan.formats.errors import BadInputError
from planner.validate.choices import Cases, choices
from planner.validate.run import validate
from planner.validate.sources.excuse import NotModelledError
from planner.validate.sources.facts import facts_of
from planner.validate.sources.read import table_of
from planner.validate.sources.specs import Specs, trainer_of
from planner.validate.sources.table import PublishedTable, Source


def facts(tmp_path, **changes):
    table = table_of(data(row(**changes)), "t")
    return facts_of(table.rows[0], Specs("made", tmp_path))


FULL = {"data": 1, "fsdp": 8, "context": 1, "tensor": 1, "expert": 1}


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"mesh": FULL | {"pipe": 2}}, "pipeline axis", "pipe=2"),
        ({"workload": {"precision": "fp8"}}, "precision below bf16", "precision=fp8"),
        ({"mesh": FULL | {"fsdp": 1, "context": 8}, "strategy": {"scheme": "usp"}}, "scheme", "scheme=usp"),
        ({"strategy": {"remat": "offload-query"}}, "offload", "remat=offload-query"),
        ({"model": "mamba-2.8b"}, "architecture", "unknown model 'mamba-2.8b'"),
        ({"model": "llama4-scout"}, "architecture", "the cost model has no chunked attention"),
        ({"model": None}, "incomplete configuration", "no model"),
        ({"hardware": None}, "incomplete configuration", "no hardware"),
        ({"hardware": "V100"}, "incomplete configuration", "unknown hardware 'V100'"),
        ({"hardware": "H100 PCIe"}, "incomplete configuration", "unknown hardware 'H100 PCIe'"),
        ({"strategy": {"remat": "every other layer"}}, "incomplete configuration", "unknown remat policy 'every other layer'"),
        ({"strategy": {"optimizer_offload": True}}, "offload", "the optimizer's state in the host's memory"),
        ({"strategy": {"tiled_mlp": 4}}, "architecture", "tiled_mlp=4"),
        ({"workload": {"precision": "posit16"}}, "incomplete configuration", "lcplan does not know precision 'posit16'"),
        ({"workload": {"seq_len": None}}, "incomplete configuration", "no seq_len"),
        ({"mesh": FULL | {"fsdp": 3}}, "incomplete configuration", "a mesh of 3 devices on 8"),
        ({"mesh": FULL | {"fsdp": 4}}, "incomplete configuration", "a mesh of 4 devices on 8"),
        ({"devices": None, "mesh": {}}, "incomplete configuration", "neither devices nor a mesh"),
        (
            {"mesh": FULL | {"fsdp": 1, "context": 64}, "devices": 64, "strategy": {"scheme": "ulysses"}},
            "scheme",
            "64 ranks of 32 heads",
        ),
    ],
)
def test_every_excuse_is_one_of_the_six_and_says_what(tmp_path, changes, reason, words):
    with pytest.raises(NotModelledError) as excuse:
        facts(tmp_path, **changes)
    assert excuse.value.reason == reason
    assert str(excuse.value).startswith(f"{reason}: ")
    assert words in str(excuse.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hardware": "dgx-h1000"}, "unknown hardware 'dgx-h1000'"),
        ({"hardware": {"base": "dgx-h100", "colour": 1}}, "row one: hardware: unknown key 'colour'"),
        ({"model": {"base": "llama3-8b", "layer": 1}}, "row one: model: unknown key 'layer'"),
        ({"strategy": {"backend": "ncl"}}, "row one: unknown backend 'ncl'; did you mean 'nccl'?"),
        ({"strategy": {"remat": "ful"}}, "row one: unknown remat policy 'ful'; did you mean 'full'?"),
        ({"strategy": {"remat": ["querry"]}}, "row one: remat: no tensor of a layer is named 'querry'; did you mean 'query'?"),
        ({"program": "megatrn"}, "row one: program: unknown trainer 'megatrn'; did you mean 'megatron'"),
        ({"program": {"base": "megatron", "los": "whole"}}, "row one: program: unknown key 'los'"),
    ],
)
def test_a_slip_is_an_error_and_no_excuse(tmp_path, changes, message):
    with pytest.raises(BadInputError) as error:
        facts(tmp_path, **changes)
    assert str(error.value).startswith(message)


def test_a_config_json_lies_beside_the_table(tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 1000,
    }
    (tmp_path / "small.json").write_text(json.dumps(config))
    assert facts(tmp_path, model="small.json").model.layers == 3


def test_more_devices_than_the_hardware_has_are_more_domains(tmp_path):
    found = facts(tmp_path, devices=32, mesh=FULL | {"fsdp": 32})
    assert (found.hardware.domains, found.hardware.devices) == (4, 32)
    assert facts(tmp_path).hardware.domains == 1


def test_programs_start_from_a_trainer_and_change(tmp_path):
    assert facts(tmp_path).program == PROGRAMS["flash"]
    assert facts(tmp_path, program="megatron").program == PROGRAMS["megatron"]
    changed = facts(tmp_path, program={"base": "megatron", "sequence_parallel": False}).program
    assert changed == PROGRAMS["megatron"].model_copy(update={"sequence_parallel": False})
    assert facts(tmp_path, strategy={"remat": ["query", "up"]}).program.saved == ("query", "up")


def test_open_fields_are_those_that_the_source_leaves_open(tmp_path):
    assert facts(tmp_path).open == ()
    left = facts(
        tmp_path,
        mesh={"context": 2, "tensor": 1, "expert": 1},
        workload={"precision": None, "global_batch": None},
        strategy={"remat": None, "backend": None, "microbatches": None},
    )
    assert left.open == ("mesh", "precision", "global_batch", "microbatches", "scheme", "backend", "remat")
    tpu = facts(tmp_path, hardware="tpu-v5p-16", strategy={"backend": None})
    assert "backend" not in tpu.open  # a TPU has one


def test_a_batch_of_one_sequence_a_rank_has_one_microbatch(tmp_path):
    assert "microbatches" not in facts(tmp_path, strategy={"microbatches": None}).open
    assert "microbatches" in facts(tmp_path, strategy={"microbatches": None}, workload={"global_batch": 16}).open


def test_a_choice_fills_what_is_open_and_says_so(tmp_path):
    left = facts(
        tmp_path,
        mesh={"context": 2, "tensor": 1, "expert": 1},
        workload={"global_batch": None},
        strategy={"remat": None, "microbatches": 2},
    )
    choice = {"mesh": "data", "global_batch": "two sequences", "scheme": "ring", "remat": "save-qkv"}
    case = Cases().case(left, choice)
    assert case.strategy.mesh.label == "data=4,context=2"
    assert case.setting.workload.global_batch == 4 * 2 * 2  # ranks, sequences, microbatches
    assert case.chosen == {"mesh": "data=4,context=2", "global_batch": 16, "scheme": "ring", "remat": "save-qkv"}


def test_equal_settings_are_priced_together(tmp_path):
    table = table_of(data(row(id="a"), row(id="b", mesh=FULL | {"fsdp": 4, "tensor": 2}), row(id="c", devices=8)), "t")
    specs, cases = Specs("made", tmp_path), Cases()
    settings = [cases.case(facts_of(r, specs), {}).setting for r in table.rows]
    assert settings[0] is settings[1] is settings[2]


def test_choices_are_every_combination_the_plainest_first():
    found = choices(("remat", "flop_convention"))
    assert len(found) == 15
    assert found[0] == {"remat": "full", "flop_convention": "model"}
    assert choices(()) == [{}]


@pytest.mark.parametrize(
    ("title", "where", "program"),
    [
        ("NeMo performance summary", "docs", "nemo"),
        ("Runs", "github NVIDIA/Megatron-LM", "megatron"),
        ("Megatron-DeepSpeed GPT", "here", "megatron-deepspeed"),
        ("DeepSpeed Ulysses", "here", "deepspeed"),
        ("LoongTrain on A800", "here", "loongtrain"),
        ("MaxText on GPUs", "github AI-Hypercomputer/maxtext", "maxtext"),
        ("Phenomena of training", "here", "flash"),
    ],
)
def test_a_sources_own_words_name_its_trainer(title, where, program):
    assert trainer_of(Source(title=title, where=where)) == program


def test_a_row_that_states_no_program_has_the_sources_trainer(tmp_path):
    table = table_of(data(row()), "t")
    found = facts_of(table.rows[0], Specs("made", tmp_path, unstated="megatron"))
    assert found.program == PROGRAMS["megatron"]


@pytest.mark.parametrize(("scheme", "ulysses"), [("ring", 4), ("ulysses-ring", 3)])
def test_ranks_that_exchange_heads_belong_to_one_scheme_and_divide_context(scheme, ulysses):
    mesh = {"data": 1, "fsdp": 1, "context": 8, "tensor": 1, "expert": 1, "pipe": 1}
    made = data(row(mesh=mesh, strategy={"scheme": scheme, "ulysses": ulysses}))
    with pytest.raises(BadInputError, match=f"ulysses={ulysses} needs scheme ulysses-ring"):
        validate(PublishedTable.model_validate(made), Path())


def test_a_batch_that_ranks_and_microbatches_do_not_divide_is_bad_input(tmp_path):
    with pytest.raises(BadInputError, match="microbatches = 24 does not divide global_batch=32 sequences"):
        facts(tmp_path, workload={"global_batch": 32}, strategy={"microbatches": 3})
    assert facts(tmp_path, workload={"global_batch": 48}, strategy={"microbatches": 3}).open == ()
    assert facts(tmp_path, workload={"global_batch": 4}).open == ()  # a sequence over several ranks


def test_fields_of_a_strategy_change_the_program(tmp_path):
    plain = facts(tmp_path, program="torch-fsdp").program
    asked = {"deterministic": True, "double_ring": True, "transformer_engine": True}
    found = facts(tmp_path, program="torch-fsdp", strategy=asked).program
    assert (found.deterministic, found.ring_communicators, found.attention) == (True, 5, "flash")
    assert (found.ring_order, plain.ring_order) == ("double", "plain")
    assert (plain.deterministic, plain.ring_communicators, plain.attention) == (False, 1, "flash2")


def test_an_mfu_is_a_rate_over_the_peak_of_the_device(tmp_path):
    found = facts(tmp_path, measured={"mfu_ratio": 0.4})
    assert found.row.measured.stated["tflop_per_s_per_device"] == pytest.approx(0.4 * 989, rel=1e-3)
