"""A run out of memory is contradictory beside one that needed at least as much and ran, whatever the laws say."""

import pytest

from planner.validate.run import validate
from planner.validate.sources.read import table_of

BASE = {
    "schema_version": 1,
    "name": "made",
    "source": {"title": "made", "where": "here"},
    "defaults": {
        "model": "llama3-8b",
        "hardware": "dgx-h100",
        "workload": {"seq_len": 65536, "global_batch": 1, "precision": "bf16"},
        "strategy": {"remat": "full", "backend": "nccl", "microbatches": 1, "scheme": "ring-zigzag"},
        "program": "torch-fsdp",
    },
}


def row(name, *, context, fits, **more):
    strategy = {"mesh": {"data": 1, "fsdp": 1, "context": context, "tensor": 1, "expert": 1, "pipe": 1}}
    strategy |= more.pop("strategy", {})
    return {"id": name, "devices": context, "strategy": strategy, "measured": {"fits": fits}, **more}


def beside(tmp_path, *rows):
    found = validate(table_of(BASE | {"rows": list(rows)}, "made"), tmp_path)
    return {result.id: result.contradicted_by for result in found.rows}


def test_fewer_devices_with_as_many_tokens_each_ran(tmp_path):
    rows = row("small", context=4, fits=True), row("large", context=8, fits=False, workload={"seq_len": 131072})
    assert beside(tmp_path, *rows) == {"small": None, "large": "small"}


@pytest.mark.parametrize(
    "other",
    [
        row("other", context=4, fits=True, workload={"seq_len": 32768}),  # fewer tokens a device
        row("other", context=8, fits=True, workload={"seq_len": 131072}),  # state over more devices
        row("other", context=4, fits=True, strategy={"scheme": "all-gather"}),
        row("other", context=4, fits=True, program="torch-eager"),
        row("other", context=4, fits=True, model="qwen3-8b"),
    ],
)
def test_a_run_that_may_have_needed_less_contradicts_nothing(tmp_path, other):
    assert beside(tmp_path, row("out", context=4, fits=False), other)["out"] is None


def test_keeping_more_needs_more(tmp_path):
    kept = {"strategy": {"remat": "save-attention"}}
    out, ran = row("out", context=4, fits=False), row("ran", context=4, fits=True, **kept)
    assert beside(tmp_path, out, ran)["out"] == "ran"
    out, ran = row("out", context=4, fits=False, **kept), row("ran", context=4, fits=True)
    assert beside(tmp_path, out, ran)["out"] is None


def test_the_json_says_verdict_and_contradiction(tmp_path):
    rows = row("small", context=4, fits=True), row("large", context=8, fits=False, workload={"seq_len": 131072})
    found = validate(table_of(BASE | {"rows": list(rows)}, "made"), tmp_path)
    shown = [result.to_json() for result in found.rows]
    assert [entry["contradicted_by"] for entry in shown] == [None, "small"]
    for entry in shown:
        need = entry["predicted"]["budget_ratio"]
        close = abs(need - 1) <= 0.1
        assert entry["verdict"] == ("too close to call" if close else "fits" if need < 1 else "out of memory")
