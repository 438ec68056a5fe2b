import numpy as np
import pytest

from cost_models.inputs.table import StrategyTable
from lcplan.formats.nearest import divisors
from lcplan.strategy import AXES
from planner.space.enumerate import Knobs, expand, mesh_options
from planner.space.meshes import every_mesh

BACKENDS = ("nccl", "nvshmem")


def _ordered_factorisations(count: int) -> int:
    """d_4(n) by counting, as an independent check."""
    return sum(
        1 for a in range(1, count + 1) for b in range(1, count + 1) for c in range(1, count + 1) if count % (a * b * c) == 0
    )


def test_every_factorisation_of_every_count(ask):
    request = ask("llama-tiny", "dgx-h100", seq=1024, batch=8)
    meshes = every_mesh(request)
    assert len(meshes) == sum(_ordered_factorisations(n) for n in range(1, 9))
    assert len({tuple(mesh) for mesh in meshes}) == len(meshes)
    assert (meshes[:, 4] == 1).all(), "a dense model has no expert axis"


def test_exactly_the_devices_asked_for(ask):
    meshes = every_mesh(ask(devices=32))
    assert (meshes[:, : len(AXES)].prod(axis=1) == 32).all()
    assert len(meshes) == _ordered_factorisations(32)


def test_axis_filters(ask):
    meshes = every_mesh(ask(devices=32, mesh="context=8..16,tensor=2"))
    assert set(map(tuple, meshes[:, 2:4])) == {(8, 2), (16, 2)}


def test_points_of_a_mesh_are_what_is_expanded(ask):
    request = ask(devices=32, mesh="context=16,tensor=2")
    knobs = Knobs.of(request.filters, BACKENDS, kind="gpu")
    meshes = every_mesh(request)
    table = expand(request, knobs, meshes)
    assert len(table) == sum(mesh_options(request, knobs, tuple(mesh)).points for mesh in meshes)
    rows = {table.strategy(i) for i in range(len(table))}
    assert len(rows) == len(table), "no strategy stands twice"


def test_without_context_one_scheme_stands_for_all(ask):
    request = ask(seq=8192, batch=512, mesh="context=1,fsdp=8", devices=8)
    table = expand(request, Knobs.of(request.filters, BACKENDS, kind="gpu"), every_mesh(request))
    assert len(np.unique(table.scheme)) == 1


def test_placements_only_where_they_differ(ask):
    one_domain = ask(mesh="fsdp=2,context=4", devices=8, hw="dgx-h100")
    two_domains = ask(mesh="fsdp=2,context=8", devices=16, hw="dgx-h100x2")
    orders = [
        len(mesh_options(r, Knobs.of(r.filters, BACKENDS, kind="gpu"), tuple(every_mesh(r)[0])).axis_order)
        for r in (one_domain, two_domains)
    ]
    assert orders == [1, 2]


def test_filters_of_knobs(ask):
    request = ask(
        devices=8, mesh="context=8", scheme=("ring",), remat=("full", "save-all"), microbatches=(4,), loss_chunk_tokens=(512,)
    )
    table = expand(request, Knobs.of(request.filters, ("nccl",), kind="gpu"), every_mesh(request))
    assert len(table) == 2
    assert {table.strategy(i).remat for i in range(2)} == {"full", "save-all"}
    assert table.strategy(0).microbatches == 4
    assert table.strategy(0).loss_chunk_tokens == 512


def test_an_empty_space_has_empty_columns(ask):
    request = ask(devices=7, mesh="context=2")
    meshes = every_mesh(request)
    assert len(meshes) == 0
    assert isinstance(expand(request, Knobs.of(request.filters, ("nccl",), kind="gpu"), meshes), StrategyTable)


def test_the_main_job_has_tens_of_thousands_of_points(ask):
    from planner.workloads.points import analyse

    analysis = analyse(ask(), BACKENDS)
    assert analysis.enumerated > 50_000
    assert len(analysis.table) > 10_000


@pytest.mark.parametrize(("number", "expected"), [(1, (1,)), (12, (1, 2, 3, 4, 6, 12)), (49, (1, 7, 49))])
def test_divisors(number, expected):
    assert divisors(number) == expected
