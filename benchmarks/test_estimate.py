"""How many candidates a second the laws price, on one core: ``pytest benchmarks``."""

from itertools import product

import numpy as np
import pytest

from cost_models.estimate import estimate
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import CODES, SIZES, StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy

ROWS = 200_000
BAR_ROWS_PER_S = 1_000_000


def space(devices: int) -> StrategyTable:
    """Power-of-two meshes of up to ``devices`` devices, each with the choices of the small knobs, in the planner's order."""
    powers = [2**i for i in range(devices.bit_length())]
    meshes = np.array([mesh for mesh in product(powers, repeat=4) if np.prod(mesh) <= devices])
    knobs = np.array(list(product([1, 2, 4, 8, 16], [1024, 4096], range(4), range(5), range(3), range(2))))
    row = np.linspace(0, len(meshes) * len(knobs) - 1, ROWS).astype(np.int64)
    mesh, knob = meshes[row // len(knobs)], knobs[row % len(knobs)]
    codes = dict(zip(("scheme", "remat", "backend", "axis_order"), knob[:, 2:].T.astype(np.int8), strict=True))
    codes |= {name: np.zeros(ROWS, dtype=np.int8) for name in CODES if name not in codes}
    sizes = {name: np.full(ROWS, Strategy.model_fields[name].default, dtype=np.int64) for name in SIZES}
    sizes |= {"microbatches": knob[:, 0], "loss_chunk_tokens": knob[:, 1], "expert": np.ones(ROWS, dtype=np.int64)}
    sizes |= dict(zip(("data", "fsdp", "context", "tensor"), mesh.T.astype(np.int64), strict=True))
    return StrategyTable(**sizes, **codes)


@pytest.mark.parametrize("machine", ["gb200-nvl72", "dgx-h100x4", "tpu-v5p-64"])
def test_candidates_a_second(benchmark, machine):
    spec = hardware(machine)
    setting = Setting(model("llama3-8b"), spec, Workload(seq_len=262144, global_batch=64), spec.usable_bytes)
    table = space(spec.devices)
    result = benchmark.pedantic(estimate, args=(setting, table), rounds=15, warmup_rounds=2)
    assert len(result) == ROWS
    rows_per_s = ROWS / benchmark.stats.stats.min
    benchmark.extra_info["rows_per_s"] = round(rows_per_s)
    assert rows_per_s >= BAR_ROWS_PER_S
