"""The same program priced both ways: by the cost model, and by the operations of its executable.

``benchmarks/step_executions.py`` records the operations of lcplan's own step, compiled for absent GPUs.
"""

import json
from pathlib import Path

import pytest

from cost_models.executable.schedule import execution_time
from lcplan import catalog
from lcplan.evidence.execution import Execution
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.request.request import SearchRequest
from planner.workloads.pricing import price

CASES = json.loads((Path(__file__).parent / "data" / "step_executions.json").read_text())
CLOSE = 0.10
EXCEPTIONS: dict[str, str] = {}
"""Cases that differ by more, each with its cause."""


def both(case):
    """Step time by the executable, and by the cost model [s]."""
    hardware = catalog.hardware(case["hardware"])
    strategy = Strategy.model_validate({"mesh": case["mesh"], "backend": hardware.backends[0], **case["knobs"]})
    request = SearchRequest(
        model=catalog.model(case["model"]),
        hardware=hardware,
        workload=Workload(seq_len=case["seq_len"], global_batch=case["global_batch"]),
        budget_bytes=hardware.usable_bytes,
    )
    execution = Execution.model_validate(case["execution"])
    return execution_time(execution, hardware, devices=strategy.devices).step_s, price(request, strategy).estimate["step_s"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_executable_and_cost_model_agree(case):
    executable, model = both(case)
    agrees = abs(executable / model - 1.0) <= CLOSE
    assert agrees != (case["id"] in EXCEPTIONS), (
        f"{case['id']}: {executable:.4g} s by the executable, {model:.4g} s by the model"
    )


def test_pairs_that_differ_by_more_than_a_tenth_have_the_right_order():
    """Compare steps of one model, length and number of devices."""
    times = {}
    for case in CASES:
        times.setdefault((case["hardware"], case["model"], case["seq_len"], case["global_batch"]), []).append(both(case))
    pairs = [(a, b) for found in times.values() for a in found for b in found if a[1] > 1.1 * b[1]]
    assert pairs
    assert all(a[0] > b[0] for a, b in pairs)


def test_every_exception_is_a_case():
    assert EXCEPTIONS.keys() <= {case["id"] for case in CASES}
