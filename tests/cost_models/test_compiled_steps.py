"""The memory law against what the targets' own compilers said of whole steps (``python benchmarks/compile_grid.py``)."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cost_models.estimate import estimate
from cost_models.setting import Setting
from cost_models.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.remat import REMAT_POLICIES
from lcplan.strategy import Strategy
from lcplan.workload import Workload

ROWS = json.loads((Path(__file__).parent / "data" / "compiled_steps.json").read_text())["rows"]
STATE = 0.01
WORST = {"gb200": 0.10, "dgx-h100": 0.10, "tpu-v5p": 0.10, "cpu-host": 0.15}
MEAN = {"gb200": 0.02, "dgx-h100": 0.02, "tpu-v5p": 0.03, "cpu-host": 0.06}


def priced(row):
    machine = hardware(row["hardware"])
    workload = Workload(seq_len=row["seq_len"], global_batch=row["global_batch"])
    setting = Setting(model(row["model"]), machine, workload, machine.usable_bytes)
    return estimate(setting, StrategyTable.from_strategies([Strategy.model_validate(row["strategy"])])).row(0)


def modelled(row):
    return priced(row)["memory_bytes"]


def named(row):
    strategy = Strategy.model_validate(row["strategy"])
    return f"{row['hardware']}-{row['model']}-{row['seq_len'] // 1024}k-{strategy.label}".replace(" ", ",")


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_total_and_state_of_a_compiled_step(row):
    memory = modelled(row)
    state = memory["params"] + memory["optimizer"] + memory["batch"]
    assert state == pytest.approx(row["argument_bytes"], rel=STATE)
    worst = next(bound for kind, bound in WORST.items() if row["hardware"].startswith(kind))
    assert memory["total"] == pytest.approx(row["total_bytes"], rel=worst)


@pytest.mark.parametrize("kind", list(MEAN))
def test_mean_error_and_bias_on_each_machine(kind):
    errors = np.array([modelled(row)["total"] / row["total_bytes"] - 1 for row in ROWS if row["hardware"].startswith(kind)])
    assert len(errors) >= 4
    assert np.abs(errors).mean() <= MEAN[kind]
    assert abs(errors.mean()) <= MEAN[kind]


def test_what_was_compiled_adds_up():
    for row in ROWS:
        parts = row["argument_bytes"] + row["output_bytes"] + row["temp_bytes"] - row["alias_bytes"]
        assert row["total_bytes"] == parts


def test_policies_are_ordered_as_the_law_orders_them():
    rows = [row for row in ROWS if row["model"] == "llama3-8b" and row["strategy"]["mesh"] == {"context": 16, "tensor": 2}]
    steps = {row["strategy"].get("remat", "full"): row for row in rows if row["global_batch"] == 1 and row["seq_len"] == 2**18}
    chain = [steps[name] for name in ("none", "dots", "save-attention", "full", "offload-layer-in")]
    for more, less in pairwise(chain):
        assert more["temp_bytes"] > less["temp_bytes"]
        assert modelled(more)["total"] > modelled(less)["total"]


def test_what_is_offloaded_lies_in_the_hosts_memory_to_the_byte():
    offloaded = [row for row in ROWS if row["strategy"].get("remat", "").startswith("offload")]
    assert len(offloaded) >= 4
    for row in offloaded:
        assert priced(row)["host_bytes"] == row["host_temp_bytes"]


def test_the_grid_reaches_every_scheme_policy_and_machine():
    strategies = [Strategy.model_validate(row["strategy"]) for row in ROWS]
    assert {s.scheme for s in strategies} == {"ring", "ring-zigzag", "all-gather", "ulysses"}
    assert {s.remat for s in strategies} == set(REMAT_POLICIES)
    assert len({row["model"] for row in ROWS}) >= 5
