"""Real configs of the wild, where a folder of them lies beside the checkout: each is planned, or refused with the reason."""

import json
import re
from pathlib import Path

import pytest

import planner
from lcplan.formats.errors import BadInputError

FOLDER = Path(__file__).parents[2].parent / "shared" / "hf_configs"
INDEX = FOLDER / "index.json"
pytestmark = pytest.mark.skipif(not INDEX.exists(), reason="the folder of real config.json files is not beside this checkout")
ROWS = json.loads(INDEX.read_text()) if INDEX.exists() else []
PLANNED = {
    "llama", "mistral", "qwen2", "qwen3", "phi3", "internlm", "internlm2", "mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3",
    "gpt_oss", "gemma2", "gemma3_text",
}  # fmt: skip
WHY = "model_type '.*' is not modelled|is counted, not planned; lcplan's step does not support: .+"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_planned_or_refused_with_the_reason(row):
    winner, refusal = _searched(row)
    if refusal:
        assert re.search(WHY, refusal)
        assert row["model_type"] not in PLANNED
    else:
        assert winner is not None
        assert winner.estimate["fits"]
        assert 0.05 < winner.estimate["mfu_ratio"] < 0.7


def _searched(row):
    options = {"model": str(FOLDER / f"{row['name']}.json"), "seq": "1k", "hw": "dgx-h100x64"}
    meshes = "data=1,context=1,tensor=1,fsdp=1..512"
    try:
        return planner.search(**options, mesh=meshes, remat="full", backend="nccl", survivors=1).winner, ""
    except BadInputError as error:
        return None, str(error)
