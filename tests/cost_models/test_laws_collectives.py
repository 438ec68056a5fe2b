"""The list of collectives, worked by hand for small meshes."""

import pytest

from cost_models.collectives.step import assigned_backend, collective_terms, collectives
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Mesh, Strategy


def found(setting, strategy):
    return {(use.purpose, use.op): (use.axis, use.bytes, use.calls) for use in collectives(setting, strategy)}


def test_one_device_communicates_nothing(toy):
    assert collectives(toy, Strategy(mesh=Mesh())) == ()


def test_fsdp_alone_moves_weights_and_gradients_only(toy):
    # 4 sequences over fsdp 2, two microbatches of one; bf16 gathers of 576 a layer and 32 x 8 a table, fp32 gradients;
    # vectors: 2 x 16 + 8 = 40 in fp32
    uses = found(toy, Strategy(mesh=Mesh(fsdp=2), microbatches=2))
    assert uses == {
        ("weights", "all-gather"): ("fsdp", 2 * 576, 2 * 2 * 2),
        ("weights", "reduce-scatter"): ("fsdp", 4 * 576, 2 * 2),
        ("tables", "all-gather"): ("fsdp", 2 * 256, 2 * 2),
        ("tables", "reduce-scatter"): ("fsdp", 4 * 256, 2 * 2),
        ("vectors", "all-reduce"): ("fsdp", 4 * 40, 1),
        ("scalars", "all-reduce"): ("fsdp", 4, 2),
    }


def test_a_ring_sends_keys_and_values_and_returns_their_gradients(toy):
    # context 4, one microbatch of 4 sequences: tl = 4 x 16 = 64 tokens, K H = 4: key and value 2 x 64 x 4 = 512 elements;
    # 3 hops forward, 3 again, 2 more backward from the first of these, on 2 layers
    uses = found(toy, Strategy(mesh=Mesh(context=4), scheme="ring"))
    assert uses["kv-ring", "collective-permute"] == ("context", 2 * 512, (3 + 3 + 2) * 2)
    assert uses["weights", "all-gather"][0] == "context"


def test_gradients_of_keys_and_values_come_home_rounded(toy):
    # 3 hops in fp32 and one in bf16, on 2 layers
    hops = collectives(toy, Strategy(mesh=Mesh(context=4), scheme="ring"))
    assert [(use.bytes, use.calls) for use in hops if use.purpose == "kv-gradients"] == [(4 * 512, 3 * 2), (2 * 512, 2)]


def test_a_ring_of_two_passes_on_no_sum(toy):
    # tl = 4 x 32 = 128 tokens: 1024 elements; one hop with one rank's share and one home, both in bf16, on 2 layers
    hops = collectives(toy, Strategy(mesh=Mesh(context=2), scheme="ring"))
    assert [(use.bytes, use.calls) for use in hops if use.purpose == "kv-gradients"] == [(2 * 1024, 2 * 2)]


def test_what_is_saved_is_not_sent_again(toy):
    # attention is kept: 3 hops forward, the first again, 2 more
    saved = found(toy, Strategy(mesh=Mesh(context=4), scheme="ring", remat="save-attention"))
    assert saved["kv-ring", "collective-permute"][2] == (3 + 1 + 2) * 2


def test_more_tensor_ranks_than_kv_heads_gather_their_weights_over_tensor_too(toy):
    # K = 2 < tensor 4: keys' and values' 8 x 2 x 4 = 64 elements whole; the rest (576 - 64) / 4 = 128
    uses = found(toy, Strategy(mesh=Mesh(fsdp=2, tensor=4)))
    assert uses["key-value-weights", "all-gather"] == ("fsdp+tensor", 2 * 64, 2 * 2)
    assert uses["weights", "all-gather"] == ("fsdp", 2 * 128, 2 * 2)


def test_collective_matmuls_send_pieces_and_leave_the_embedding_alone(toy):
    # tensor 4: 64 tokens x D 8 in bf16, of which a piece is a quarter; 6 + 5 gathers and scatters on 2 layers, 3 hops each
    off = found(toy, Strategy(mesh=Mesh(tensor=4)))
    on = found(toy, Strategy(mesh=Mesh(tensor=4), collective_matmul="one-way"))
    rows = off["stream", "all-gather"][1]
    assert on["stream-ring", "collective-permute"] == ("tensor", rows / 4, (6 + 5) * 2 * 3)
    assert on["stream", "all-gather"] == on["stream", "reduce-scatter"] == ("tensor", rows, 1)
    assert on == found(toy, Strategy(mesh=Mesh(tensor=4), collective_matmul="two-way"))
    moved = off["stream", "all-gather"][2] + off["stream", "reduce-scatter"][2] - 2
    assert 3 / 4 * rows * moved == rows / 4 * on["stream-ring", "collective-permute"][2]  # as much as a ring algorithm sends


def test_ulysses_and_all_gather_have_no_permutes(toy):
    for scheme in ("ulysses", "all-gather"):
        ops = {use.op for use in collectives(toy, Strategy(mesh=Mesh(context=2), scheme=scheme))}
        assert "collective-permute" not in ops
    ulysses = found(toy, Strategy(mesh=Mesh(context=2), scheme="ulysses"))
    # 4 x 32 tokens x 8 query features: in and out forward, both again, two gradients, on two layers; keys and values 2 x 4
    assert ulysses["ulysses-query", "all-to-all"] == ("context", 2 * 128 * 8, 6 * 2)
    assert ulysses["ulysses-key-value", "all-to-all"] == ("context", 2 * 128 * 8, 3 * 2)
    # four ranks, two KV heads: each goes to two
    wide = found(toy, Strategy(mesh=Mesh(context=4), scheme="ulysses"))
    assert wide["ulysses-key-value", "all-to-all"] == ("context", 2 * 64 * 8 * 2, 3 * 2)


def test_a_scheme_without_context_ranks_changes_nothing(toy):
    lists = {collectives(toy, Strategy(mesh=Mesh(fsdp=2), scheme=scheme)) for scheme in ("ring", "ring-zigzag", "ulysses")}
    assert len(lists) == 1


@pytest.mark.parametrize(
    ("requested", "op", "size", "given"),
    [
        ("nvshmem", "collective-permute", 2**30, "nvshmem"),
        ("nvshmem", "all-reduce", 2**24 - 1, "nvshmem"),
        ("nvshmem", "all-reduce", 2**24, "nccl"),  # the limit itself stays with NCCL
        ("nvshmem", "all-gather", 8, "nccl"),
        ("symmetric", "all-reduce", 8, "nccl"),
        ("symmetric", "collective-permute", 8, "symmetric"),
        ("ici", "all-gather", 8, "ici"),
    ],
)
def test_backend_that_xla_assigns(requested, op, size, given):
    assert assigned_backend(requested, op=op, size_bytes=size) == given


def test_columns_equal_one_row_at_a_time(llama):
    strategies = [
        Strategy(mesh=Mesh(context=16, tensor=2), microbatches=16),
        Strategy(mesh=Mesh(fsdp=8, context=8), scheme="ring", remat="save-except-mlp"),
        Strategy(mesh=Mesh(data=2, tensor=16), microbatches=8),
    ]
    together = collective_terms(llama, StrategyTable.from_strategies(strategies))
    for i, strategy in enumerate(strategies):
        alone = collective_terms(llama, StrategyTable.from_strategies([strategy]))
        assert [(t.bytes[i], t.calls[i]) for t in together] == [(t.bytes[0], t.calls[0]) for t in alone]
