"""Time of parts, by hand and at their limits."""

import numpy as np
import pytest

from cost_models.collectives.collective_matmul import Ring
from cost_models.rates.published import rates_of
from cost_models.time.part import part_seconds
from lcplan.catalog import hardware
from lcplan.parts import Part
from lcplan.strategy import Mesh, Strategy

MESH = Mesh(data=2, tensor=4)
V5E = hardware("tpu-v5e-8")


def seconds(kind, shape, *, sharding=None, mesh=MESH, machine=V5E, rest=None, **knobs):
    part = Part.of(kind, shape=shape, sharding=sharding, mesh=mesh, rest=rest or {})
    return part_seconds(part, Strategy(mesh=mesh, backend=machine.backends[0], **knobs), machine)


def test_a_product_is_its_flops_or_its_traffic():
    rates = rates_of(V5E)
    # 1024 rows, 2048 inner, 8192 columns on a device
    large = seconds("matmul", "B=2048,D=2048,F=32768")
    assert large["products"] == pytest.approx(2 * 1024 * 2048 * 8192 / rates.gemm.value)
    # one row: the weight is read
    small = seconds("matmul", "B=2,D=2048,F=32768")
    assert small["products"] == pytest.approx(2 * (2048 + 2048 * 8192 + 8192) / rates.hbm.value)


def test_the_published_product_is_as_slow_without_and_faster_with_a_ring():
    """311 and 244 us on v5e 4x2; the shape is the one that the bundled table takes."""
    whole = sum(seconds("matmul", "B=2368,D=2048,F=32768").values())
    ring = sum(seconds("matmul", "B=2368,D=2048,F=32768", collective_matmul="one-way").values())
    assert whole == pytest.approx(311e-6, rel=0.02)
    assert ring == pytest.approx(244e-6, rel=0.1)


def test_a_ring_of_gathered_rows_is_that_of_the_step():
    """The same pieces and hops as ``product_pass_seconds`` prices in the bundled table, which is within a tenth of 490 us."""
    rows = "B/(data,tensor) D -> B/(data,tensor) D"
    whole, ring = (
        sum(seconds("ffn", "B=2368,D=2048,F=32768", sharding=rows, collective_matmul=way).values())
        for way in ("off", "one-way")
    )
    assert whole == pytest.approx(622e-6, rel=0.02)
    assert ring == pytest.approx(490e-6, rel=0.05)


def test_an_all_reduce_moves_as_much_as_a_scatter_and_a_gather():
    sizes = {"B": 2048, "D": 8192, "F": 2048}
    shape = ",".join(f"{dim}={size}" for dim, size in sizes.items())
    reduced, scattered, gathered = (
        seconds("matmul", shape, sharding=f"B/data D/tensor, D/tensor F -> {result}")["communication"]
        for result in ("B/data F", "B/(data,tensor) F", "B/data F/tensor")
    )
    assert scattered == gathered
    assert 1.5 * scattered < reduced < 2.5 * scattered


def test_without_hops_an_all_reduced_ring_pays_for_its_last_gather():
    ring = Ring(np.array([4.0]), np.array([False]), one_at_a_time=False)
    hop = np.array([1.0])
    assert ring.gathered_seconds(hop) == 3.0
    assert ring.exposed_seconds(hop, np.array([2.0]), sums=True) == 0.0
    assert ring.exposed_seconds(hop, np.array([0.25]), sums=True) == 3 * 0.75


def test_a_ring_of_one_rank_costs_nothing():
    alone = Mesh(data=2)
    assert seconds("matmul", "B=2048,D=2048,F=2048", mesh=alone, collective_matmul="one-way")["communication"] == 0.0


def test_a_collective_across_domains_is_slower():
    machine = hardware("dgx-h100x4")
    inside, across = (
        seconds("collective", "B=4096,D=4096", mesh=mesh, machine=machine, rest={"op": "all-gather", "axis": "tensor"})
        for mesh in (Mesh(tensor=8), Mesh(tensor=32))
    )
    assert across["communication"] > inside["communication"]


def test_attention_grows_with_the_square_of_the_length():
    short, long = (
        seconds("attention", f"B=1,T={length},N=32,K=8,H=128", mesh=Mesh(context=4), machine=hardware("dgx-h100"))["attention"]
        for length in (65536, 131072)
    )
    assert 3.0 < long / short <= 4.0
