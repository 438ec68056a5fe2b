"""Packed sequences: attention stays inside documents, in every scheme and sharding mode, wherever their borders lie."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import LAYOUTS, Case, assert_equal, random_documents, reference
from test_moe_equality import QWEN
from test_step_equality import PLAIN, RICH, strategy

from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEMES
from strategies.inputs.step_spec import KernelName, StepSpec
from strategies.kernels.blockwise import BlockwiseKernel
from strategies.kernels.interface import Attended, Segments
from strategies.kernels.splash import SplashKernel
from strategies.kernels.tiles import Tiles
from strategies.parallel.mesh import build_mesh
from strategies.schemes.merge import Merged
from strategies.train.limits import check
from strategies.train.rank_slice import build_slice, slowest_rank
from strategies.train.step import build_step

FAST = [
    ("uneven", PLAIN, strategy("ring", context=4, tensor=2)),
    ("uneven", PLAIN, strategy("ring-zigzag", context=4)),
    ("uneven", PLAIN, strategy("all-gather", context=4)),
    ("uneven", RICH, strategy("ulysses", context=4, tensor=2)),
    ("uneven", PLAIN, strategy("ulysses-ring", ulysses=2, context=4)),
]
SLOW = [
    ("uneven", PLAIN, strategy()),
    ("uneven", RICH, strategy("ring-zigzag", "save-attention", context=4, fsdp=2, microbatches=2)),
    ("uneven", PLAIN, strategy("all-gather", "save-all", context=4, tensor=2)),
    ("uneven", PLAIN, strategy("ulysses-ring", ulysses=2, context=8, bidirectional="on")),
    ("any ids", PLAIN, strategy("ring-zigzag", context=4, tensor=2, bidirectional="on", collective_matmul="one-way")),
    ("short", PLAIN, strategy("ring", context=4, fsdp=2).model_copy(update={"sharding_mode": "explicit"})),
    ("crossing", RICH, strategy("ring-zigzag", context=4, tensor=2).model_copy(update={"sharding_mode": "auto"})),
    ("uneven", QWEN, strategy("ring-zigzag", context=2, expert=2, tensor=2, moe_capacity_percent=0)),
]


@pytest.mark.parametrize(("layout", "model", "mixed"), FAST, ids=lambda value: getattr(value, "label", None))
def test_equals_reference(layout, model, mixed):
    assert_equal(Case(model, mixed, documents=layout))


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "model", "mixed"), SLOW, ids=lambda value: getattr(value, "label", None))
def test_mixtures_equal_reference(layout, model, mixed):
    assert_equal(Case(model, mixed, documents=layout))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["manual", "auto", "explicit"])
@pytest.mark.parametrize("remat", ["full", "save-attention"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_grid_equals_reference(scheme, layout, remat, mode):
    exchange = {"ulysses": 2} if scheme == "ulysses-ring" else {}
    mixed = strategy(scheme, remat, context=4, tensor=2, **exchange).model_copy(update={"sharding_mode": mode})
    assert_equal(Case(PLAIN, mixed, documents=layout))


def test_documents_change_the_loss_and_one_whole_document_does_not():
    plain, whole, short = (reference(PLAIN, 4, 32, layout)[0] for layout in (None, "whole", "short"))
    assert whole == plain
    assert abs(short / plain - 1) > 1e-3


def tokens(keys, layout="crossing", seed=0):
    rng = np.random.default_rng(seed)
    q, do = (jnp.asarray(rng.normal(size=(2, 128, 2, 128)), jnp.float32) for _ in range(2))
    ids = jnp.asarray(random_documents(layout, 2, 128 + keys))
    return q, jnp.asarray(rng.normal(size=(2, 2, keys, 1, 128)), jnp.float32), do, Segments(ids[:, keys:], ids[:, :keys])


def test_splash_masks_as_blockwise_does():
    """Keys before the queries: most queries see none of them, and the merge takes nothing from these."""
    q, kv, do, segments = tokens(keys=128)
    own = Segments(segments.q, segments.q)
    first = BlockwiseKernel().forward(q, kv, mask="causal", segments=own)
    blind = ~np.any(np.asarray(segments.q)[:, :, None] == np.asarray(segments.kv)[:, None], axis=2)
    assert 0 < blind.sum() < blind.size
    merged = []
    for kernel in (BlockwiseKernel(32, 16), SplashKernel(interpret=True)):
        chunk = kernel.forward(q, kv, mask="full", segments=segments)
        assert np.isfinite(chunk.o).all()
        merged.append(Merged.of(first).with_chunk(chunk))
        assert np.array_equal(np.asarray(merged[-1].o)[blind], np.asarray(first.o)[blind])
    for ours, theirs in zip(*merged, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    attended = Attended(*merged[0])
    for mask, keys, ids in (("full", kv, segments), ("causal", kv, own)):
        ours, theirs = (
            kernel.backward(q, keys, attended=attended, do=do, mask=mask, segments=ids)
            for kernel in (BlockwiseKernel(32, 16), SplashKernel(interpret=True))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert float(jnp.linalg.norm(one - other) / jnp.linalg.norm(one)) < 1e-5


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_blocks_that_share_no_document_are_not_visited(mask):
    ids = jnp.repeat(jnp.arange(8), 16)[None]  # documents of 16 tokens
    tiles = Tiles(16, 32, mask, Segments(ids, ids))
    spans = [tuple(int(end) for end in tiles.keys_seen(jnp.array(i), 128)) for i in range(8)]
    assert spans == [(i // 2, i // 2 + 1) for i in range(8)]
    spans = [tuple(int(end) for end in tiles.queries_seen(jnp.array(j), 8)) for j in range(4)]
    assert spans == [(2 * j, 2 * j + 2) for j in range(4)]
    strangers = Tiles(16, 32, mask, Segments(ids, ids + 100))
    first, end = strangers.keys_seen(jnp.array(3), 128)
    assert end <= first


def test_a_gpu_kernel_takes_documents_in_even_half_chunks():
    def spec(seq_len):
        workload = Workload(seq_len=seq_len, global_batch=4, document_len=8)
        return StepSpec(PLAIN, workload, strategy("ring", context=2), "cudnn")

    check(spec(32))
    with pytest.raises(
        BadInputError, match=r"kernel cudnn takes documents \(document_len=8\) in chunks and half chunks of an even"
    ):
        check(spec(28))


def test_the_example_batch_is_packed():
    mixed = strategy("ring-zigzag", context=4)
    spec = StepSpec(PLAIN, Workload(seq_len=32, global_batch=4, document_len=5, precision="fp32"), mixed, "blockwise")
    step = build_step(spec, build_mesh(mixed, jax.devices()[:4]))
    batch = step.example_batch(jax.random.key(1))
    ids = np.asarray(batch.documents_BT)
    assert sorted(np.bincount(ids[0])) == [2, 5, 5, 5, 5, 5, 5]
    assert (np.asarray(batch.targets_BT) == -1).sum() == 4 * 6  # one a document, but for the last, which the sequence cuts
    assert batch.documents_BT.sharding == batch.tokens_BT.sharding


def packed_spec(scheme: str, document_len: int | None, kernel: KernelName = "blockwise", **fields: int) -> StepSpec:
    workload = Workload(seq_len=256, global_batch=4, document_len=document_len, precision="fp32")
    return StepSpec(PLAIN, workload, strategy(scheme, context=4, **fields), kernel)


def test_the_slowest_rank_has_most_keys_to_attend_to():
    def place(spec):
        return slowest_rank(spec).places["context"]

    assert place(packed_spec("ring", None)) == 3
    assert place(packed_spec("ring", 64)) == 3  # a document a rank: all alike, so the last
    assert place(packed_spec("ring", 100)) == 2  # tokens 128 to 191, 28 to 91 of their document: nearer its end than any others
    assert place(packed_spec("ring", 100, "splash")) == 3  # whole chunks alone: ranks 1 to 3 see one other each
    assert place(packed_spec("ring", 192, "splash")) == 2  # which sees two, and rank 3 begins a document
    assert place(packed_spec("ring-zigzag", 100)) == 2  # tokens 64 to 95 and 160 to 191, each near the end of a document


def test_a_slice_visits_the_blocks_of_its_rank():
    """Its ids are those of the whole sequence, as the other ranks would send them."""
    spec = packed_spec("ring-zigzag", 40, fsdp=2)
    part = build_slice(spec)
    state, batch = part.init(jax.random.key(0)), part.example_batch(jax.random.key(1))
    assert batch.tokens_BT.shape == (2, 64)
    whole = build_step(spec, build_mesh(spec.strategy, jax.devices()[:8])).example_batch(jax.random.key(1))
    assert np.array_equal(batch.documents_BT, whole.documents_BT[:2])
    assert np.isfinite(part.jitted(state, batch)[1].loss)
