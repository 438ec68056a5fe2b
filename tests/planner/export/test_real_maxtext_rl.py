"""MaxText's own parser of RL configurations on an exported plan."""

import pytest
import yaml
from real_trainers import real_python

from lcplan.evidence.plan import Plan
from planner.cli.main import run
from planner.export.check import check_export
from planner.export.folder import write_export
from planner.export.run import export_plan

PYTHON = real_python("maxtext")
SIZES = ["--prompt", "256", "--generate", "1024", "--batch", "256", "--kl-coefficient", "0.04"]
PLACES = ["--hw", "tpu-v4-32", "--devices", "16", "--mesh", "fsdp=16", "--parameters", "tensor-sharded", "--microbatches", "2"]

pytestmark = [pytest.mark.trainers, pytest.mark.skipif(PYTHON is None, reason="no Python with MaxText")]


@pytest.fixture
def export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["search", "--workload", "rl", "--model", "qwen3-1.7b", *SIZES, *PLACES, "--survivors", "1"]
    assert run([*asked, "--stages", "modelled", "--out", "run"]) == 0
    return export_plan(Plan.load(tmp_path / "run" / "plan.yaml"), "maxtext")


def test_the_parser_reads_the_plan_back(export, tmp_path):
    write_export(tmp_path / "maxtext", export.files)
    checked = check_export(export, tmp_path / "maxtext", python=PYTHON)
    assert checked.good, checked.said
    facts = checked.facts
    assert (facts["global_batch"], facts["prompt"], facts["seq_len"], facts["microbatches"]) == (256, 256, 1280, 2)
    assert facts["kl_coefficient"] == 0.04
    assert facts["parameters"] == [28, 2048, 6144, 16, 8, 128, 151936]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rollout_tensor_parallelism": 3}, "axes of the sampler multiply to"),
        ({"num_vocab_tiling": 4}, "Vocab Tiling is not supported with RL"),
        ({"remat_policy": "ful"}, "remat_policy 'ful' is not one of"),
    ],
)
def test_a_wrong_key_is_refused(export, tmp_path, change, words):
    write_export(tmp_path / "maxtext", export.files)
    file = tmp_path / "maxtext" / "maxtext_rl.yml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | change))
    checked = check_export(export, tmp_path / "maxtext", python=PYTHON)
    assert not checked.accepted
    assert words in checked.said
