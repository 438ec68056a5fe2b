"""Real configs of the wild, where a folder of them lies beside the checkout: exact or refused, none wrong."""

import json
from pathlib import Path

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.hf import read_config

FOLDER = Path(__file__).parents[2].parent / "shared" / "hf_configs"
INDEX = FOLDER / "index.json"
pytestmark = pytest.mark.skipif(not INDEX.exists(), reason="the folder of real config.json files is not beside this checkout")
ROWS = json.loads(INDEX.read_text()) if INDEX.exists() else []
EXACT = {
    "llama", "mistral", "qwen2", "qwen3", "phi3", "internlm", "internlm2",
    "mixtral", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "llama4", "gemma2", "gemma3_text",
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_exact_or_refused_by_name(row):
    if row["model_type"] in EXACT:
        assert read_config(FOLDER / f"{row['name']}.json").parameters == row["params"]
    else:
        with pytest.raises(BadInputError, match=f"model_type '{row['model_type']}' is not modelled"):
            read_config(FOLDER / f"{row['name']}.json")


def test_at_least_twenty_are_exact():
    assert sum(row["model_type"] in EXACT for row in ROWS) >= 30
