"""The compiled step's collectives are those of docs/step.md, in op, axis and bytes a step, and no others."""

from collections import Counter

import pytest
from compiled_step import MODEL, Sizes, collective_bytes, compile_on_host

from lcplan.strategy import SCHEMES, Mesh, Strategy

WIDTH = 4
"""Bytes of everything: the step is compiled in fp32, gathers and reductions too."""


def strategy(scheme="ring", remat="full", microbatches=1, **mesh):
    return Strategy(
        mesh=Mesh(**mesh), scheme=scheme, remat=remat, microbatches=microbatches, loss_chunk_tokens=16, gather_dtype="fp32"
    )


def listed(strategy):
    """docs/step.md's table, as bytes a step by (op, axes)."""
    s, m = Sizes(strategy), MODEL
    t, c, passes = s.tensor, s.context, m.layers * s.microbatches
    uses = Counter()

    def add(op, axes, elements):
        label = "+".join(
            axis for axis in ("data", "fsdp", "context", "tensor") if axis in axes and getattr(strategy.mesh, axis) > 1
        )
        if label and elements:
            uses[op, label] += WIDTH * elements

    spread = 2 * m.d_model * m.kv_heads * m.head_dim if t > m.kv_heads else 0
    shared = (m.layer_matrix_parameters - spread) / t
    for axes, elements in ((("fsdp", "context"), shared), (("fsdp", "context", "tensor"), spread)):
        add("all-gather", axes, 2 * passes * elements)
        add("reduce-scatter", axes, passes * elements)
    for op in ("all-gather", "reduce-scatter"):
        add(op, ("fsdp", "context"), 2 * s.microbatches * m.vocab * m.d_model / t)
        add(op, ("tensor",), s.microbatches * s.tokens * m.d_model)  # loss
    scatters = 4 * passes + passes * ("attention_out" not in s.saved) + s.microbatches
    add("all-gather", ("tensor",), (6 * passes + s.microbatches) * s.tokens * m.d_model)
    add("reduce-scatter", ("tensor",), scatters * s.tokens * m.d_model)
    add("all-reduce", ("tensor",), 3 * s.tokens * s.microbatches)

    query, pair = s.tokens * m.head_dim * m.heads / t, 2 * s.tokens * m.head_dim * s.kv_heads
    match strategy.scheme:
        case "ring" | "ring-zigzag":
            hops = 2 * (c - 1) if {"context", "lse"} <= s.saved else 3 * (c - 1) - 1
            add("collective-permute", ("context",), passes * (hops + c) * pair)
        case "all-gather":
            add("all-gather", ("context",), passes * 2 * c * pair)
            add("reduce-scatter", ("context",), passes * c * pair)
        case "ulysses":
            copies = max(1, c // s.kv_heads)
            add("all-to-all", ("context",), passes * 3 * (2 * query + copies * pair))

    vectors = m.layers * m.layer_vector_parameters + m.d_model
    add("all-reduce", ("data", "fsdp", "context", "tensor"), vectors)
    add("all-reduce", ("data",), (m.parameters - vectors) / (s.fsdp * c * t))
    return uses


def assert_as_listed(strategy):
    wanted, got = listed(strategy), collective_bytes(compile_on_host(strategy), strategy)
    scalars = WIDTH * 40  # loss, tokens that count, and one partial norm a parameter array
    for key in wanted | got:
        assert wanted[key] <= got[key] <= wanted[key] + scalars * (key[0] == "all-reduce"), key


FAST = [
    strategy("ring-zigzag", context=4, tensor=2),
    strategy("ring", "minimal", fsdp=2, context=2, tensor=2, microbatches=2),
    strategy("all-gather", "none", fsdp=2, context=4),
    strategy("ulysses", "save-attention", data=2, context=2, tensor=2),
    strategy("ring", context=2, tensor=4),  # more tensor ranks than KV heads
    strategy("ulysses", context=4, tensor=2),  # more context ranks than a rank's KV heads
]


@pytest.mark.parametrize("strategy", FAST, ids=lambda strategy: strategy.label)
def test_collectives_are_as_listed(strategy):
    assert_as_listed(strategy)


@pytest.mark.slow
@pytest.mark.parametrize("remat", ["full", "save-attention", "save-qkv", "minimal", "none"])
@pytest.mark.parametrize(
    "mesh",
    [
        {"context": 2},
        {"context": 8},
        {"context": 4, "fsdp": 2},
        {"context": 2, "tensor": 2, "data": 2},
        {"tensor": 8},
        {"data": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_grid_of_collectives_is_as_listed(scheme, mesh, remat):
    assert_as_listed(strategy(scheme, remat, **mesh))
