"""What the pipelined step refuses, each by name with a way out."""

import pytest
from test_limits import problems

from lcplan.spec.experts import Experts
from lcplan.spec.model import ModelSpec
from lcplan.strategy import Mesh, Strategy

MODEL = ModelSpec(name="small", layers=8, d_model=64, d_ff=96, heads=12, kv_heads=4, head_dim=8, vocab=96)


def pipelined(**fields):
    mesh = Mesh(pipe=2, **fields.pop("mesh", {}))
    return Strategy(mesh=mesh, **{"microbatches": 4, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schedule": "zb-h1"}, "schedule=zb-h1 is priced, not built; use 1f1b, interleaved, gpipe, circular"),
        (
            {"sharding_mode": "auto"},
            "pipe=2 with sharding_mode=auto: stages are written out by hand; use sharding_mode=manual",
        ),
        (
            {"remat": "offload-layer-in", "offload_percent": 50},
            "offload_percent=50 with pipe=2: all layers of a stage offload; use 100",
        ),
        (
            {"virtual_stages": 8, "schedule": "interleaved"},
            "pipe x virtual_stages=16 is more than the 8 iterations of the layers of small; use fewer",
        ),
        (
            {"virtual_stages": 2},
            "virtual_stages=2 with schedule=1f1b; use schedule=interleaved, or virtual_stages=1",
        ),
        (
            {"virtual_stages": 2, "schedule": "circular", "microbatches": 1},
            "pipe=2 does not divide microbatches=1, and with virtual_stages=2 they pass in groups of 2; use a multiple of 2, or"
            " virtual_stages=1",
        ),
        (
            {"mesh": {"context": 64}, "scheme": "ring"},
            "fsdp x context x expert x pipe=128 does not divide d_model=64; embedding and head are split over it along D",
        ),
    ],
)
def test_each_limit_says_what_and_why(fields, message):
    assert message in problems(pipelined(**fields), model=MODEL)


def test_rows_are_dealt_out_to_stages():
    (message,) = problems(pipelined(), model=MODEL, seq_len=63)
    assert message == (
        "tensor x pipe=2 does not divide tokens of a microbatch on a context rank=63; each stage embeds its share of them"
    )


def test_stages_run_one_program():
    dense_first = MODEL.model_copy(update={"experts": Experts(count=4, active=2, d_ff=32, first_dense=1)})
    (message,) = problems(pipelined(), model=dense_first)
    assert message.startswith("pipe=2: model small has 2 runs of layers of different kinds")


def test_layers_that_stages_do_not_divide_are_no_problem():
    seven = MODEL.model_copy(update={"layers": 7})
    assert problems(pipelined(), model=seven) == []
    assert problems(pipelined(schedule="gpipe", mesh={"tensor": 2}), model=MODEL) == []
