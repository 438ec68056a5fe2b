"""The compiled step's collectives are those of docs/step.md, in op, axis and bytes a step, and no others."""

from collections import Counter

import pytest
from compiled_step import (
    MODEL,
    Sizes,
    collective_bytes,
    collective_uses,
    compile_on_host,
    gradients_on_host,
    law_bytes,
    law_uses,
)

from lcplan.strategy import AXES, SCHEMES, Mesh, Strategy

WIDTH = 4
"""Bytes of everything: the step is compiled in fp32, gathers and reductions too."""


def strategy(scheme="ring", remat="full", **fields):
    mesh = Mesh(**{axis: fields.pop(axis) for axis in AXES if axis in fields})
    return Strategy(mesh=mesh, scheme=scheme, remat=remat, loss_chunk_tokens=16, gather_dtype="fp32", **fields)


class Table(Counter):
    """Bytes a step by (op, axes), as docs/step.md lists them for one strategy."""

    def __init__(self, strategy):
        super().__init__()
        self.mesh, self.s = strategy.mesh, Sizes(strategy)
        self.passes = MODEL.layers * self.s.microbatches

    def add(self, op, axes, elements):
        label = "+".join(
            axis for axis in ("data", "fsdp", "context", "tensor") if axis in axes and getattr(self.mesh, axis) > 1
        )
        if label and elements:
            self[op, label] += WIDTH * elements

    def weights(self):
        s, m = self.s, MODEL
        spread = 2 * m.d_model * m.kv_heads * m.head_dim if s.tensor > m.kv_heads else 0
        shared = (m.layer_matrix_parameters - spread) / s.tensor
        for axes, elements in ((("fsdp", "context"), shared), (("fsdp", "context", "tensor"), spread)):
            self.add("all-gather", axes, 2 * self.passes * elements)
            self.add("reduce-scatter", axes, self.passes * elements)
        for op in ("all-gather", "reduce-scatter"):  # embedding and head
            self.add(op, ("fsdp", "context"), 2 * s.microbatches * m.vocab * m.d_model / s.tensor)

    def stream_and_loss(self):
        s, rows = self.s, self.s.tokens * MODEL.d_model
        scatters = 4 * self.passes + self.passes * ("attention_out" not in s.saved) + s.microbatches
        gathers = 6 * self.passes + s.microbatches
        if s.strategy.collective_matmul != "off":
            hops = (gathers + scatters - 2 * s.microbatches) * (s.tensor - 1)
            self.add("collective-permute", ("tensor",), hops * rows / s.tensor)
            gathers = scatters = s.microbatches
        self.add("all-gather", ("tensor",), gathers * rows + s.microbatches * rows)
        self.add("reduce-scatter", ("tensor",), scatters * rows + s.microbatches * rows)
        self.add("all-reduce", ("tensor",), 3 * s.tokens * s.microbatches)

    def attention(self, scheme):
        s, m = self.s, MODEL
        query, pair = s.tokens * m.head_dim * m.heads / s.tensor, 2 * s.tokens * m.head_dim * s.kv_heads
        match scheme:
            case "ring" | "ring-zigzag":
                self.ring(s.context, pair)  # of two lanes each moves half of it
            case "ulysses-ring" if s.context > 1:
                ranks = s.strategy.ulysses
                copies = max(1, ranks // s.kv_heads)
                self["all-to-all", f"context/{ranks}"] += WIDTH * self.passes * 3 * (2 * query + copies * pair)
                self.ring(s.context // ranks, copies * pair)
            case "all-gather":
                self.add("all-gather", ("context",), self.passes * 2 * s.context * pair)
                self.add("reduce-scatter", ("context",), self.passes * s.context * pair)
            case "ulysses":
                copies = max(1, s.context // s.kv_heads)
                self.add("all-to-all", ("context",), self.passes * 3 * (2 * query + copies * pair))

    def ring(self, stops, pair):
        hops = 2 * (stops - 1) if {"attention_output", "lse"} <= self.s.saved else 3 * (stops - 1) - 1
        self.add("collective-permute", ("context",), self.passes * (hops + stops) * pair)

    def once_a_step(self):
        s, m = self.s, MODEL
        vectors = m.layers * m.layer_vector_parameters + m.d_model
        self.add("all-reduce", ("data", "fsdp", "context", "tensor"), vectors)
        self.add("all-reduce", ("data",), (m.parameters - vectors) / (s.fsdp * s.context * s.tensor))


def listed(strategy):
    table = Table(strategy)
    table.weights()
    table.stream_and_loss()
    table.attention(strategy.scheme)
    table.once_a_step()
    return table


def assert_as_listed(strategy, document_len=None):
    """The law as this page's table, the executable as both."""
    wanted, law = listed(strategy), law_bytes(strategy, document_len=document_len)
    text = compile_on_host(strategy, document_len)
    got = collective_bytes(text, strategy)
    assert_none_is_larger(collective_uses(text, strategy), law_uses(strategy, document_len=document_len))
    if document_len is not None:  # int32 ids of the whole sequences, once a microbatch
        wanted["all-gather", "context"] += 4 * strategy.microbatches * strategy.mesh.context * Sizes(strategy).tokens
    scalars = WIDTH * 40  # loss, tokens that count, and one partial norm a parameter array
    for key in {*wanted, *law, *got}:
        reduces = key[0] == "all-reduce"
        assert wanted[key] <= law[key] <= wanted[key] + 2 * WIDTH * reduces, key
        assert wanted[key] <= got[key] <= wanted[key] + scalars * reduces, key


def assert_none_is_larger(found, named):
    """No message is larger than the largest that the law names; all-reduces XLA makes one of, scalars among them."""
    largest, together = Counter(), Counter()
    for use in named:
        largest[use.op, use.axis] = max(largest[use.op, use.axis], use.bytes)
        together[use.op, use.axis] += use.total_bytes
    for use in found:
        key = use.op, use.axis
        assert use.bytes <= (together[key] + WIDTH * 40 if use.op == "all-reduce" else largest[key]), use


FAST = [
    strategy("ring-zigzag", context=4, tensor=2),
    strategy("ring", "save-except-mlp", fsdp=2, context=2, tensor=2, microbatches=2),
    strategy("all-gather", "save-all", fsdp=2, context=4),
    strategy("ulysses", "save-attention", data=2, context=2, tensor=2),
    strategy("ring", "save-attention", context=4, bidirectional="on"),
    strategy("ulysses-ring", "save-all", ulysses=4, context=8),  # two ranks that exchange share a KV head
    strategy("ulysses-ring", ulysses=2, context=4, tensor=2),
    strategy("ring", context=2, tensor=4),  # more tensor ranks than KV heads
    strategy("ulysses", context=4, tensor=2),  # more context ranks than a rank's KV heads
    strategy("ring", context=2, tensor=4, collective_matmul="one-way", microbatches=2),
    strategy("ring", "save-except-mlp", context=2, tensor=4, collective_matmul="two-way"),
]


@pytest.mark.parametrize("strategy", FAST, ids=lambda strategy: strategy.label)
def test_collectives_are_as_listed(strategy):
    assert_as_listed(strategy)


def test_ids_of_documents_are_gathered_once_a_microbatch():
    assert_as_listed(strategy("all-gather", context=4, tensor=2, microbatches=2), document_len=24)


def test_two_loops_over_a_share_of_the_layers_move_what_one_loop_does():
    """XLA for CPU compiles no update beside what is offloaded (jax 0.10.1), so gradients alone; GPU targets have the step."""
    whole, half = (
        strategy("ring-zigzag", "offload-attention", fsdp=2, context=2, tensor=2, offload_percent=percent)
        for percent in (100, 50)
    )
    four = MODEL.model_copy(update={"layers": 4})  # a loop of one turn would be unrolled
    one, two = (collective_bytes(gradients_on_host(each, four), each) for each in (whole, half))
    assert one == two
    for key, moved in law_bytes(half, model=four).items():
        assert two[key] == moved or key[0] == "all-reduce"


@pytest.mark.slow
@pytest.mark.parametrize("remat", ["full", "save-attention", "save-qkv", "save-except-mlp", "save-all"])
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
    mixed = {"ulysses": 2} if scheme == "ulysses-ring" and mesh.get("context", 1) > 1 else {}
    if mixed and mesh["context"] == 2:
        pytest.skip("two ranks that exchange leave no ring")
    assert_as_listed(strategy(scheme, remat, **mesh, **mixed))
