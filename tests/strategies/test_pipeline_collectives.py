"""Collectives of a pipelined executable against those that the cost model lists."""

from compiled_step import MODEL, WORKLOAD, collective_bytes, compile_on_host, law_bytes

from lcplan.strategy import Mesh, Strategy

SCALARS = 4 * 40
"""Loss, tokens that count, and one partial norm a parameter array [bytes]."""


def test_collectives_are_those_of_the_law():
    """Bytes a step by kind and axis.

    A branch on the tick is read as if every tick of its loop took it, so the loops count some embeddings too many: at most
    P - 1 of M. The message of the last tick has no reader and is removed.
    """
    pipe, microbatches = 2, 8
    strategy = Strategy(
        mesh=Mesh(pipe=pipe, context=2, tensor=2), microbatches=microbatches, loss_chunk_tokens=16, gather_dtype="fp32"
    )
    found, law = collective_bytes(compile_on_host(strategy), strategy), law_bytes(strategy)
    message = 4 * WORKLOAD.tokens // microbatches // 4 * MODEL.d_model
    for key in {*found, *law}:
        more = law[key] * (pipe - 1) / microbatches + SCALARS * (key[0] == "all-reduce")
        less = message if key == ("collective-permute", "pipe") else 8
        assert law[key] - less <= found[key] <= law[key] + more, key
    assert law["collective-permute", "pipe"] == 2 * (microbatches + pipe - 1) * message
