"""A slice in a worker: two depths drawn out to the whole, and what is added to it."""

import pytest
from measuring import MakeJob, MemoryStore

from lcplan import catalog
from lcplan.formats.errors import StageFailedError
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from planner.measure.jobs import time_slices
from planner.measure.targets.toolchain import Toolchain
from planner.measure.timing.time_slice import depths_of
from planner.measure.workers.pool import PoolLimits
from planner.request.filters import Filters
from planner.request.request import SearchRequest
from planner.run.measuring import Bench
from planner.run.timed_slice import says
from planner.workloads.pricing import price

LIMITS = PoolLimits(jobs=1, wall_s=300)


def request_of(layers: int, devices: int) -> SearchRequest:
    hardware = catalog.hardware("cpu-host")
    return SearchRequest(
        model=catalog.model("llama-tiny").model_copy(update={"layers": layers}),
        hardware=hardware,
        workload=Workload(seq_len=256, global_batch=devices, precision="fp32"),
        budget_bytes=hardware.usable_bytes,
        devices=devices,
        filters=Filters(),
    )


def test_a_slice_of_a_ring(toolchain: Toolchain, store: MemoryStore) -> None:
    request = request_of(layers=6, devices=4)
    strategy = Strategy(mesh=Mesh(context=4), scheme="ring-zigzag", backend="host", loss_chunk_tokens=64)
    bench = Bench(request, toolchain, LIMITS, store)
    (found,) = bench.time_slices([price(request, strategy)])
    timed = found.timed
    assert timed is not None
    assert timed.error is None
    assert (timed.rung, timed.ranks_in_turn) == ("timed:slice", 4)
    assert timed.device.startswith("1 x cpu (")
    assert timed.extrapolation is not None
    (two, four), (shallow, deep) = timed.extrapolation.layers, timed.extrapolation.step_s
    assert (two, four) == (2, 4)
    assert timed.rank_s == pytest.approx(deep + 2 * (deep - shallow) / 2)
    assert timed.step_s == pytest.approx(4 * timed.rank_s + sum(timed.added_s.values()))
    assert set(timed.added_s) == {"comm_fsdp", "comm_context", "comm_data"}
    assert found.best.rung == "timed:slice"
    assert "one rank's step on 1 x cpu" in says(timed)
    assert "from 2 and 4 layers x 4 ranks that share its cores" in says(timed)
    (again,) = bench.time_slices([price(request, strategy)])
    assert again.timed == timed
    assert len(store.served) == 1


@pytest.mark.parametrize(
    ("percent", "depths"), [(100, (2, 4)), (50, (2, 4)), (25, (4, 8)), (75, (4, 8)), (10, (10, 20)), (33, ())]
)
def test_of_each_depth_the_same_share_offloads(percent: int, depths: tuple[int, ...]) -> None:
    """33 % is a whole number of layers of a hundred only: such a step is timed whole."""
    strategy = Strategy(mesh=Mesh(), remat="offload-layer-in", offload_percent=percent)
    assert depths_of(strategy) == depths
    assert all(percent * depth % 100 == 0 for depth in depths)


def test_a_slice_needs_a_device_of_its_kind(toolchain: Toolchain, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = toolchain.model_copy(update={"targets": {**toolchain.targets, "gpu": "no CUDA plugin"}})
    with pytest.raises(StageFailedError, match="dgx-h100: a slice runs on a device of its kind: no CUDA plugin"):
        list(time_slices([make_job("dgx-h100", context=2)], toolchain=bare, pool=LIMITS, store=None))
    able = toolchain.model_copy(update={"targets": {**toolchain.targets, "gpu": True}})
    monkeypatch.setattr("planner.measure.jobs.gpu_names", lambda: ())
    with pytest.raises(StageFailedError, match="dgx-h100: a slice runs on a device of its kind: the driver lists no GPU here"):
        list(time_slices([make_job("dgx-h100", context=2)], toolchain=able, pool=LIMITS, store=None))
