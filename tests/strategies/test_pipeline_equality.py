"""Loss and every gradient of pipelined steps equal the single-device reference, in fp32."""

from itertools import product

import pytest
from equality import Case, assert_equal
from test_moe_equality import QWEN
from test_step_equality import PLAIN, RICH, strategy

from lcplan.spec.windows import WindowPattern
from lcplan.strategy import MOE_DISPATCHES, SCHEME_FACTS, SCHEMES, Strategy
from lcplan.strategy.remat import REMAT_POLICIES

FOUR = PLAIN.model_copy(update={"name": "four layers", "layers": 4})
SIX = PLAIN.model_copy(update={"name": "six layers", "layers": 6})
RICH_FOUR = RICH.model_copy(update={"name": "everything on, four layers", "layers": 4})
QWEN_FOUR = QWEN.model_copy(update={"name": "experts, four layers", "layers": 4})
WINDOWED = PLAIN.model_copy(
    update={
        "name": "every second layer with a window",
        "layers": 4,
        "sliding_window": 6,
        "window_pattern": WindowPattern(full=1),
    }
)

SQUARE = {"context": 2, "tensor": 2}
BOUND = 3e-5
"""Four layers of ``PLAIN`` on two fsdp ranks without a pipeline: 1.1e-5; with context 2 and tensor 2: 2.3e-5."""

FAST = [
    (FOUR, strategy(pipe=2, **SQUARE, microbatches=4)),
    (FOUR, strategy(pipe=4, tensor=2, microbatches=3, remat="save-attention")),  # fewer microbatches than stages
    (
        FOUR,
        strategy("ring-zigzag", pipe=2, **SQUARE, microbatches=4, virtual_stages=2, schedule="interleaved", remat="save-all"),
    ),
    (RICH_FOUR, strategy(pipe=2, context=2, fsdp=2, microbatches=2, schedule="gpipe", remat="save-qkv")),
    (SIX, strategy(pipe=2, context=2, microbatches=4, virtual_stages=2, schedule="circular")),  # two of eight places are empty
    (RICH_FOUR, strategy("all-gather", pipe=2, data=2, context=2, microbatches=2, remat="offload-attention")),
    (FOUR, strategy(pipe=2, tensor=4, microbatches=2, collective_matmul="one-way", remat="save-except-mlp")),
    (QWEN_FOUR, strategy(pipe=2, expert=2, tensor=2, microbatches=2, moe_capacity_percent=0)),
]


def case(model, mixed, **fields):
    sequences = mixed.mesh.batch_ranks * mixed.microbatches
    return Case(model, mixed, global_batch=12 if sequences == 3 else max(8, sequences), **fields)


@pytest.mark.parametrize(
    ("model", "strategy"), FAST, ids=lambda value: value.label if isinstance(value, Strategy) else value.name
)
def test_equals_reference(model, strategy):
    assert_equal(case(model, strategy), bound=BOUND)


def test_documents_and_windows_follow_their_microbatch():
    """A stage runs forward and backward on different microbatches, each with its own documents."""
    mixed = strategy("ring", pipe=2, context=4, microbatches=4)
    assert_equal(case(WINDOWED, mixed, documents="uneven"), bound=BOUND)


SIZES = [{"context": context, "tensor": tensor} for context, tensor in product((1, 2), (1, 2))]
HOW = [("1f1b", 1), ("interleaved", 2), ("gpipe", 1), ("circular", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("remat", REMAT_POLICIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("schedule", "chunks"), HOW)
def test_grid_equals_reference(schedule, chunks, size, remat):
    mixed = strategy("ring-zigzag", remat, pipe=2, **size, microbatches=4, schedule=schedule, virtual_stages=chunks)
    assert_equal(case(FOUR, mixed), bound=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_equals_reference(scheme):
    exchange = {"ulysses": 2} if SCHEME_FACTS[scheme].groups else {}
    assert_equal(case(FOUR, strategy(scheme, pipe=2, context=4, microbatches=4, **exchange)), bound=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", MOE_DISPATCHES)
def test_every_dispatch_equals_reference(dispatch):
    mixed = strategy(pipe=2, expert=2, fsdp=2, microbatches=2, moe_dispatch=dispatch, moe_capacity_percent=0, remat="save-all")
    assert_equal(case(QWEN_FOUR, mixed), bound=BOUND)
