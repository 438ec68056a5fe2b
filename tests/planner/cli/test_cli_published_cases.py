"""A file of published cases with right values, where the machine has it: the verdict of each case, and its advice."""

import json
import os
from pathlib import Path

import pytest

FILE = Path(os.environ.get("LCPLAN_CASES", "cases.json")).absolute()
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="LCPLAN_CASES is not the path of a file of published cases")

FITS = {"t2-host-one-gpu": True}
UNFIT = (
    "t2-reshard-false", "t2-tt-never", "t2-twin-flow", "t2-meg-unfused", "t2-nothing-offload", "t2-nothing-ulysses",
    "t2-nothing-chunks", "t2-host-fits", "t2-host-sum", "t2-advice-deepspeed",
)  # fmt: skip
ADVICE = {
    "t2-nothing-offload": "fsdp_activation_checkpointing_offload: true",
    "t2-nothing-ulysses": '"sequence_parallel_size": 8',
    "t2-nothing-chunks": "--loss-chunk-tokens",
    "t2-advice-deepspeed": "parallelism_config_sp_size: 4",
    "t2-twin-flow": '"offload_optimizer"',
}


def cases():
    return {case["id"]: case["input"] for case in json.loads(FILE.read_text())} if FILE.is_file() else {}


def files_of(name, known):
    """The files of a case; three are described by another case."""
    found = {key.removeprefix("file "): text for key, text in known[name].items() if key.startswith("file ")}
    if name == "t2-nothing-chunks":
        text, key = known["t2-nothing-offload"]["file a.yaml"], "fsdp_activation_checkpointing: true"
        found["a.yaml"] = text.replace(key, f"{key}, fsdp_activation_checkpointing_offload: true")
    if name in ("t2-host-one-gpu", "t2-host-sum"):
        text = known["t2-host-fits"]["file a.json"]
        ranks = '{"sequence_parallel_size": 8, ' if name == "t2-host-sum" else "{"
        found["a.json"] = text.replace("{", ranks, 1)
    return found


@pytest.mark.parametrize("name", [*FITS, *UNFIT])
def test_a_published_case_has_its_verdict_and_advice(lcplan, name):
    known = cases()
    for file, text in files_of(name, known).items():
        Path(file).write_text(text)
    command = known[name]["command"]
    if name == "t2-nothing-chunks":
        command = known["t2-nothing-offload"]["command"].replace(" --loss-chunk-tokens 256", "")
    answer = lcplan(*command.split()[1:], "--format", "json")
    assert answer.code == 0, answer.err
    assert answer.json["candidate"]["best"]["fits"] is FITS.get(name, False)
    assert answer.json["imported"]["fits"] is FITS.get(name, False)
    advice = answer.json["imported"]["would_change"]
    changes = [" ".join(change["change"]) for change in (*advice["single"], *([advice["best"]] if advice["best"] else []))]
    assert ADVICE.get(name, "") in " | ".join(changes)
