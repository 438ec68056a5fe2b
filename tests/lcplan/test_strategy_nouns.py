"""Strategy, mesh, workload, remat and collective nouns."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcplan.formats.errors import BadInputError, LcplanError, NothingFitsError, StageFailedError
from lcplan.spec.collective import CollectiveUse
from lcplan.spec.workload import Workload
from lcplan.strategy import AXES, AXIS_ORDERS, OUTERMOST, Mesh, Strategy
from lcplan.strategy.remat import GRID_POLICIES, NAMED_TENSORS, REMAT_POLICIES, RematName, RematPolicy

sizes = st.integers(1, 64)


@given(sizes, sizes, sizes, sizes, sizes)
def test_mesh_devices_are_the_product_of_its_axes(data, fsdp, context, tensor, expert):
    mesh = Mesh(data=data, fsdp=fsdp, context=context, tensor=tensor, expert=expert)
    assert mesh.devices == data * fsdp * context * tensor * expert
    assert mesh.sizes == tuple(getattr(mesh, axis) for axis in AXES)
    strategy = Strategy(mesh=mesh)
    assert strategy.devices == mesh.devices
    assert strategy.state_shards == fsdp * context * tensor * expert


@pytest.mark.parametrize(
    ("mesh", "label"), [(Mesh(), "one device"), (Mesh(context=16, tensor=2), "context=16,tensor=2"), (Mesh(data=2), "data=2")]
)
def test_mesh_label(mesh, label):
    assert mesh.label == label


def test_strategy_label_names_the_scheme_only_where_there_is_context():
    assert Strategy(mesh=Mesh(context=4)).label == "context=4 ring-zigzag remat=full nccl microbatches=1"
    assert Strategy(mesh=Mesh(fsdp=4)).label == "fsdp=4 remat=full nccl microbatches=1"


def test_axis_orders_place_every_axis_once():
    assert all(sorted((*OUTERMOST, *order)) == sorted(AXES) for order in AXIS_ORDERS)


def test_policies_have_names_and_save_named_tensors_only():
    assert set(REMAT_POLICIES) == set(get_args(RematName))
    assert all(set(policy.saved) <= set(NAMED_TENSORS) for policy in REMAT_POLICIES.values())
    assert all(not set(policy.kept) & set(policy.offloaded) for policy in REMAT_POLICIES.values())
    assert REMAT_POLICIES["full"] == RematPolicy()
    assert set(REMAT_POLICIES["save-all"].kept) == set(NAMED_TENSORS)
    assert REMAT_POLICIES["offload-layer-in"].saved == ()  # the scan's carry is kept anyway
    assert set(GRID_POLICIES) <= set(REMAT_POLICIES)


def test_no_two_policies_are_the_same():
    sets = {(frozenset(policy.kept), frozenset(policy.offloaded)) for policy in REMAT_POLICIES.values()}
    assert len(sets) == len(REMAT_POLICIES)


def test_names_that_maxtext_has_mean_maxtexts_sets():
    """``minimal`` is MaxText's own set; what its other names keep, docs/step/remat.md lists."""
    strategy = Strategy(mesh=Mesh(), remat="minimal")
    assert set(REMAT_POLICIES[strategy.remat].saved) == {"query", "key", "value", "attention_out", "gate", "up"}
    assert Strategy(mesh=Mesh(), remat="none").remat == "save-all"


def test_policies_can_be_ordered_by_what_they_save():
    chain = ["full", "save-attention", "save-qkv", "save-except-mlp", "save-all"]
    for less, more in pairwise(chain):
        assert set(REMAT_POLICIES[less].kept) < set(REMAT_POLICIES[more].kept)


def test_workload_tokens():
    assert Workload(seq_len=262144, global_batch=16).tokens == 2**22


def test_collective_total_bytes():
    assert CollectiveUse(op="all-gather", axis="fsdp+context", bytes=1024, calls=64).total_bytes == 65536


def test_errors_carry_exit_codes_and_every_problem():
    assert [error.exit_code for error in (LcplanError, BadInputError, NothingFitsError, StageFailedError)] == [3, 2, 1, 3]
    assert BadInputError("one").problems == ("one",)
    assert str(BadInputError(["one", "two"])) == "one\ntwo"
