"""Names as strangers write them: lcplan's own where it has one, an excuse where it has none, an error for a slip."""

import pytest

from cost_models.inputs.program import PROGRAMS
from lcplan.catalog import model_names
from lcplan.formats.errors import BadInputError
from lcplan.strategy import SCHEMES
from lcplan.strategy.remat import REMAT_POLICIES
from planner.validate.run import validate
from planner.validate.sources.names import (
    MODEL_NAMES,
    REMAT_NAMES,
    SCHEME_NAMES,
    model_of,
    precision_of,
)
from planner.validate.sources.read import read_table, table_of

MESH = {"data": 1, "fsdp": 8, "context": 1, "tensor": 1, "expert": 1, "pipe": 1}
ROW = {
    "id": "r",
    "model": "llama3-8b",
    "hardware": "dgx-h100",
    "devices": 8,
    "workload": {"seq_len": 8192, "global_batch": 8, "precision": "bf16"},
    "strategy": {"mesh": MESH, "remat": "full", "backend": "nccl", "microbatches": 1},
    "measured": {"step_s": 1.0},
}


def result(tmp_path, **changes):
    row = {
        **ROW,
        **{k: ({**ROW[k], **v} if isinstance(v, dict) and isinstance(ROW.get(k), dict) else v) for k, v in changes.items()},
    }
    data = {"schema_version": 1, "name": "made", "source": {"title": "made", "where": "here"}, "rows": [row]}
    return validate(table_of(data, "made"), tmp_path).rows[0]


def test_a_model_by_its_hugging_face_name_is_the_catalogues(tmp_path):
    assert result(tmp_path, model="meta-llama/Meta-Llama-3-8B").predicted == result(tmp_path).predicted
    spelt = {"seq_len": "8k", "precision": "BFloat16"}
    assert result(tmp_path, workload=spelt, strategy={"backend": "NCCL"}).predicted == result(tmp_path).predicted


def test_hardware_that_the_catalogue_lacks_is_not_guessed(tmp_path):
    found = result(tmp_path, hardware="NVIDIA H100 PCIe")
    assert (found.status, found.reason) == ("not modelled", "incomplete configuration")
    with pytest.raises(BadInputError, match="did you mean 'dgx-h100'"):
        result(tmp_path, hardware="dgx-h1000")


def test_a_named_folder_is_read_before_a_name_is_guessed(tmp_path):
    found = result(tmp_path, model="meta-llama/none-such-9b")
    assert found.reason == "architecture"


def test_names_lead_to_what_lcplan_has():
    assert set(SCHEME_NAMES.values()) <= set(SCHEMES)
    assert set(REMAT_NAMES.values()) <= set(REMAT_POLICIES)
    assert not set(REMAT_NAMES) & set(REMAT_POLICIES)
    assert model_of("Qwen/Qwen3-8B-Base") == "qwen3-8b"
    assert (model_of("LLaMA 7B"), model_of("Mistral-7B")) == ("llama2-7b", "mistral-7b-v0.1")
    assert set(MODEL_NAMES.values()) <= set(model_names())
    assert {"nemo", "deepspeed", "loongtrain"} <= set(PROGRAMS)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("bf16_mixed", "bf16"),
        ("bfloat16 mixed precision", "bf16"),
        ("AMP", "bf16"),
        ("fp16", "bf16"),
        ("TF32", "fp32"),
        ("fp8-hybrid", None),
        ("bf16/fp8", None),
        ("MXFP8", None),
        ("nvfp4", None),
        ("int8", None),
        ("float8", None),
        ("W8A8", None),
    ],
)
def test_precisions_as_trainers_write_them(text, known):
    assert precision_of(text) == known


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("Full", "full"),
        ("full recompute", "full"),
        (True, "full"),
        ("None", "save-all"),
        (False, "save-all"),
        ("no remat", "save-all"),
        ("selective", "save-all"),
        ("minimal_with_context", "save-all"),
    ],
)
def test_remat_as_trainers_write_it(tmp_path, text, policy):
    assert result(tmp_path, strategy={"remat": text}).predicted == result(tmp_path, strategy={"remat": policy}).predicted


def test_selective_recomputation_of_unfused_attention_repeats_its_scores(tmp_path):
    """Korthikanti et al. (arXiv:2205.05198): selective recomputation drops the scores, which fused attention never keeps."""
    selective = result(tmp_path, strategy={"remat": "selective"}, program="megatron-2022")
    repeats = {"base": "megatron-2022", "recompute_scores": True}
    assert selective.predicted == result(tmp_path, strategy={"remat": "save-all"}, program=repeats).predicted
    assert selective.predicted != result(tmp_path, strategy={"remat": "save-all"}, program="megatron-2022").predicted


def test_figures_with_units(tmp_path):
    found = result(tmp_path, measured={"step_s": "1500ms", "peak_bytes": "60GiB"})
    assert found.measured == {"step_s": 1.5, "peak_bytes": 60 * 2**30}
    with pytest.raises(BadInputError, match=r"row r: measured.peak_bytes: .*'60 gigs' is not a number"):
        result(tmp_path, measured={"peak_bytes": "60 gigs"})


def test_axes_by_other_names_are_told_lcplans(tmp_path):
    with pytest.raises(
        BadInputError, match=r"row r: strategy.mesh: 'tp' is called 'tensor' here; 'cp' is called 'context' here"
    ):
        result(tmp_path, strategy={"mesh": {"tp": 2, "cp": 4}})


def test_megatrons_schemes(tmp_path):
    context = {"fsdp": 1, "context": 8}
    p2p = result(tmp_path, strategy={"mesh": MESH | context, "scheme": "p2p"})
    assert p2p.predicted == result(tmp_path, strategy={"mesh": MESH | context, "scheme": "ring-zigzag"}).predicted
    batch = {"global_batch": 12}
    uneven = result(
        tmp_path, devices=24, workload=batch, strategy={"mesh": MESH | context | {"fsdp": 3, "context": 8}, "scheme": "A2A"}
    )
    assert uneven.why is None
    assert result(tmp_path, strategy={"mesh": MESH | context, "scheme": "usp-v2"}).reason == "scheme"


def test_experts_split_the_batch_too(tmp_path):
    mesh = MESH | {"fsdp": 2, "expert": 4}
    found = result(tmp_path, model="qwen3-30b-a3b", strategy={"mesh": mesh, "microbatches": None})
    assert "microbatches" not in found.chosen
    assert found.why is None


def test_a_micro_batch_says_how_many_microbatches(tmp_path):
    two = result(tmp_path, workload={"global_batch": 32}, strategy={"microbatches": None, "micro_batch": 2})
    assert two.predicted == result(tmp_path, workload={"global_batch": 32}, strategy={"microbatches": 2}).predicted
    whole = result(tmp_path, workload={"global_batch": None}, strategy={"microbatches": 2, "micro_batch": 2})
    assert whole.predicted == two.predicted
    assert whole.chosen == {}


def test_where_the_optimizer_is_split_over_data_its_size_is_needed(tmp_path):
    mesh = {"context": 1, "tensor": 8, "expert": 1, "pipe": 1}
    without = {"devices": None, "strategy": {"mesh": mesh}}
    assert result(tmp_path, program="megatron", **without).reason == "incomplete configuration"
    assert result(tmp_path, program="megatron-2022", **without).why is None


def test_a_csv_file_is_told_what_a_table_is(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("id,step_s\na,1.0\n")
    with pytest.raises(BadInputError, match="a table is YAML or JSON"):
        read_table(file)
