"""Packed sequences: pairs by hand, blocks and chunks as the step's own code visits them, balance, bytes."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.attention.work import ring_steps
from cost_models.collectives.step import collectives
from cost_models.compute.flops import full_attention_flop, model_flop
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.table import StrategyTable
from cost_models.masks.documents import Chunks, document_pairs, visited_keys
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.strategy import SCHEME_FACTS, SCHEMES, Mesh, Strategy
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Segments
from strategies.kernels.tiles import may_share
from strategies.schemes.layout import token_order
from strategies.schemes.pattern import _span, pattern_of
from strategies.schemes.route import Route


def packed(setting, document_len):
    return replace(setting, workload=setting.workload.model_copy(update={"document_len": document_len}))


def table(scheme="ring-zigzag", context=16, **fields):
    return StrategyTable.from_strategies([Strategy(mesh=Mesh(context=context), scheme=scheme, **fields)])


def seconds(setting, scheme, *, context=16):
    layout = Layout(setting, table(scheme, context))
    return float(ring_steps(layout, rates_of(setting.hardware), backward=False).total_s[0])


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_pairs_are_those_that_are_kept(seq_len, document_len, window):
    ids, ago = np.arange(seq_len) // document_len, np.subtract.outer(np.arange(seq_len), np.arange(seq_len))
    kept = (ago >= 0) & (ids[:, None] == ids)
    diagonal = seq_len / 2  # whole in the pairs, half in the law
    assert document_pairs(seq_len, document_len=document_len) == kept.sum() - diagonal
    lengths = np.bincount(ids)
    triangles = np.minimum(window, lengths).sum() / 2  # a window's own half diagonals
    counted = document_pairs(seq_len, document_len=document_len, window=window)
    assert counted == (kept & (ago < window)).sum() - triangles


def test_pairs_at_their_limits():
    assert document_pairs(8, document_len=1) == 4  # every token sees itself
    assert (
        document_pairs(8, document_len=8) == document_pairs(8, document_len=None) == document_pairs(8, document_len=100) == 32
    )


def offered(scheme, queries, keys, ids_by_chunk):
    """Ids of the queries and keys that a scheme's view of another chunk has; None where it sees nothing."""
    pattern = pattern_of(scheme, BlockwiseKernel(), route=Route())
    view = pattern.before if keys < queries else pattern.after
    if view is None:
        return None
    length = ids_by_chunk.shape[1]
    q_ids, kv_ids = ids_by_chunk[queries, _span(view.queries, length)], ids_by_chunk[keys, _span(view.keys, length)]
    return Segments(q_ids[None], kv_ids[None])


def area(segments, mask):
    """Queries times keys of the tiles that the kernel visits."""
    tiles = BlockwiseKernel()._tiles(segments.q.shape[1], segments.kv.shape[1], mask=mask, segments=segments)
    spans = [tiles.keys_seen(jnp.array(i), segments.kv.shape[1]) for i in range(segments.q.shape[1] // tiles.query)]
    return sum(max(0, int(end) - int(first)) for first, end in spans) * tiles.query * tiles.key


@pytest.mark.parametrize("document_len", [700, 2048, 5000])
@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag"])
def test_blocks_are_those_that_the_kernel_visits(scheme, document_len):
    chunks = Chunks(count=3, length=2048, zigzag=SCHEME_FACTS[scheme].balanced)
    order = token_order(Strategy(mesh=Mesh(context=3), scheme=scheme), seq_len=3 * 2048)
    ids = jnp.asarray((order // document_len).reshape(3, 2048))
    own, others = visited_keys(chunks, document_len)
    whole = visited_keys(chunks, document_len, whole=True)[1]
    for queries in range(3):
        assert own[queries] * 2048 == area(Segments(ids[queries][None], ids[queries][None]), "causal")
        views = [offered(scheme, queries, keys, ids) for keys in range(3) if keys != queries]
        views = [segments for segments in views if segments is not None and bool(may_share(*segments).any())]
        assert others[queries] * 2048 == sum(area(segments, "full") for segments in views)
        assert whole[queries] * 2048 == sum(segments.q.size * segments.kv.size for segments in views)


def test_chunks_that_share_a_document_by_hand():
    # contiguous, two chunks a document: the second of each visits the first
    assert visited_keys(Chunks(4, 100, False), 200, whole=True)[1].tolist() == [0, 100, 0, 100]
    # zigzag half chunks 0 to 7 of 50, documents of 0 1 2 3 and 4 5 6 7; rank 1 holds 1 (sees 0) and 6 (sees 4 and 5, on ranks
    # 3 and 2): three views of half the area. Rank 3 holds 3 (sees 0, 1, 2) and 4
    assert visited_keys(Chunks(4, 100, True), 200, whole=True)[1].tolist() == [150, 150, 150, 150]


@pytest.mark.parametrize("scheme", ["ring", "ring-zigzag", "all-gather", "ulysses"])
@pytest.mark.parametrize("machine", ["gb200-nvl72", "tpu-v5p-64", "cpu-host"])
def test_one_document_takes_what_no_document_takes(llama, scheme, machine):
    setting = replace(llama, hardware=hardware(machine))
    context = 8 if scheme == "ulysses" else 16
    whole = seconds(packed(setting, setting.workload.seq_len), scheme, context=context)
    assert whole == pytest.approx(seconds(setting, scheme, context=context))


@pytest.mark.parametrize("machine", ["gb200-nvl72", "tpu-v5p-64", "cpu-host"])
def test_shorter_documents_never_take_longer(llama, machine):
    setting = replace(llama, hardware=hardware(machine))
    for scheme in ("ring", "ring-zigzag"):
        taken = [seconds(packed(setting, 2**power), scheme) for power in range(10, 19)]
        assert taken == sorted(taken)
        assert taken[0] < taken[-1] / 4


def test_fused_kernels_save_whole_chunks_alone(llama):
    """Documents that end with every chunk leave the step on a rank's own, which is as long whatever lies inside."""
    chunk = llama.workload.seq_len // 16
    ends, inside = (seconds(packed(llama, length), "ring") for length in (chunk, chunk // 16))
    assert ends == inside == pytest.approx(seconds(llama, "ring-zigzag") / 16)


def test_a_contiguous_ring_is_as_balanced_as_documents_let_it(llama):
    """Four chunks a document: the last of them visits three others; a zigzag's ranks all visit seven halves."""
    chunk = llama.workload.seq_len // 16
    assert visited_keys(Chunks(16, chunk, False), 4 * chunk, whole=True)[1].max() == 3 * chunk
    zigzag = visited_keys(Chunks(16, chunk, True), 4 * chunk, whole=True)[1]
    assert set(zigzag.tolist()) == {3.5 * chunk}  # r mod 8 halves before one run, 7 - r mod 8 before the other


def test_model_flop_counts_pairs_inside_documents(llama):
    work = llama.workload
    attention = 12 * 32 * 4096 / 2 * work.global_batch  # L, N H, causal half
    short = packed(llama, work.seq_len // 4)
    assert model_flop(llama) - model_flop(short) == pytest.approx(attention * work.seq_len**2 * 3 / 4)
    assert full_attention_flop(short) == full_attention_flop(llama)


def test_ids_in_batch_and_collectives(llama):
    strategy = Strategy(mesh=Mesh(context=16), microbatches=llama.workload.global_batch)
    short, one = packed(llama, 8192), StrategyTable.from_strategies([strategy])
    batch = [estimate(setting, one).memory_bytes["batch"][0] for setting in (llama, short)]
    assert batch[1] / batch[0] == pytest.approx(1.5)  # tokens, targets, ids
    ids = [use for use in collectives(short, strategy) if use.purpose == "documents"]
    assert [(use.op, use.axis, use.bytes, use.calls) for use in ids] == [
        ("all-gather", "context", 4 * short.workload.seq_len, strategy.microbatches)
    ]
    assert not [use for use in collectives(llama, strategy) if use.purpose == "documents"]


def test_ranks_that_have_whole_sequences_gather_no_ids(llama):
    strategy = Strategy(mesh=Mesh(fsdp=8))
    assert not [use for use in collectives(packed(llama, 8192), strategy) if use.purpose == "documents"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_priced(llama, scheme):
    fields = {"ulysses": 4 if scheme == "ulysses-ring" else 1, "microbatches": llama.workload.global_batch}
    priced = estimate(packed(llama, 8192), table(scheme, 8, **fields))
    plain = estimate(llama, table(scheme, 8, **fields))
    saved = 1 - priced.step_s[0] / plain.step_s[0]
    bias = priced.total_bytes[0] - plain.total_bytes[0]
    if scheme == "ulysses":  # one fused call for the whole sequence, which leaves out nothing, and a bias as wide
        assert saved == pytest.approx(0, abs=1e-5)
        assert bias > 0.9 * 2 * llama.workload.seq_len**2
    else:
        assert saved > 0.3
        assert bias < 2 * llama.workload.seq_len**2 / 3
