"""What the step refuses, in the words the user reads."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.train.limits import check

MODEL = ModelSpec(name="small", layers=2, d_model=64, d_ff=96, heads=12, kv_heads=4, head_dim=8, vocab=96)


def problems(strategy, *, model=MODEL, seq_len=64, global_batch=4, kernel="blockwise", precision="bf16"):
    workload = Workload(seq_len=seq_len, global_batch=global_batch, precision=precision)
    try:
        check(StepSpec(model, workload, strategy, kernel))
    except BadInputError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("mesh", "scheme", "message"),
    [
        ({"tensor": 5}, "ring", "tensor=5 does not divide heads=12; choose a tensor size that divides it"),
        ({"tensor": 6}, "ring", "tensor=6 neither divides kv_heads=4 nor is a multiple of it; choose one that does"),
        ({"context": 3}, "ring", "fsdp x context=3 does not divide d_model=64; every matrix is split over it along D"),
        ({"context": 64}, "ring-zigzag", "half chunks=128 does not divide seq_len=64; use a power of two"),
        (
            {"data": 4, "fsdp": 2},
            "ring",
            "data x fsdp x microbatches=8 does not divide global_batch=4; every microbatch needs whole sequences",
        ),
        ({"context": 8}, "ulysses", "tensor x context=8 does not divide heads=12; ulysses splits heads over both"),
        ({"expert": 2}, "ring", "expert=2: model small is dense; use expert=1"),
    ],
)
def test_each_limit_says_what_and_why(mesh, scheme, message):
    assert message in problems(Strategy(mesh=Mesh(**mesh), scheme=scheme))


def test_nothing_to_say_of_what_runs():
    assert problems(Strategy(mesh=Mesh(context=2, tensor=2, fsdp=2))) == []


def test_all_problems_at_once():
    strategy = Strategy(mesh=Mesh(tensor=5, expert=2), sharding_mode="auto")
    assert len(problems(strategy, kernel="cudnn", precision="fp32")) >= 4


def test_features_that_are_not_built():
    one = Strategy(mesh=Mesh())
    tiles = Strategy(mesh=Mesh(), attention_block=96)
    assert problems(tiles) == []
    assert problems(tiles, kernel="cudnn") == ["attention_block=96: cuDNN chooses its own tiles; use 0"]
    assert problems(tiles, kernel="splash") == ["attention_block=96 is not a multiple of 128, the width of splash's tiles"]
    assert problems(one, kernel="cudnn", precision="fp32") == ["kernel cudnn has no precision fp32; use blockwise"]
