"""Memory parts of the toy by hand, their limits, and what must rise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.inputs.layout import Layout
from cost_models.inputs.table import StrategyTable
from cost_models.memory.limit import limit_bytes
from cost_models.memory.liveness import LayerBackward
from cost_models.memory.loss import Loss
from cost_models.memory.parts import PHASES, StepMemory
from cost_models.parts.memory import STEP_MEMORY
from cost_models.parts.part import keys
from lcplan.catalog import hardware, model
from lcplan.strategy import Mesh, Strategy

REMATS = ["full", "save-attention", "save-qkv", "save-except-mlp", "save-all"]


def layout(setting, **knobs):
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(**knobs.pop("mesh", {})), **knobs)]))


def memory(setting, **knobs):
    return StepMemory(layout(setting, **knobs))


def test_state_by_hand(toy):
    # matrices 2 x 576 + 2 tables of 256 = 1664, halved by fsdp; vectors 2 x 16 + 8 = 40 whole: 872 elements
    held = memory(toy, mesh={"fsdp": 2})
    assert held.params.tolist() == [4 * 872]
    assert held.optimizer.tolist() == [8 * 872]
    assert memory(toy, mesh={"fsdp": 2}, moments_dtype="bf16").optimizer.tolist() == [4 * 872]
    # 4 sequences of 64 tokens, ids and targets of 4 bytes, half of them here
    assert held.batch.tolist() == [2 * 64 * 8]


@pytest.mark.parametrize(
    ("remat", "kept"),
    [
        ("full", 8),  # the stream: 8 features of 2 bytes a token and layer, so 16 bytes; below all in elements
        ("save-attention", 8 + 8 + 4 * 2),  # context of 8, log-sum-exp of 4 heads in fp32
        ("save-qkv", 8 + 8 + 4 * 2 + 8 + 4 + 4),
        ("save-except-mlp", 8 + 8 + 4 * 2 + 8 + 4 + 4 + 8),
        ("save-all", 8 + 8 + 4 * 2 + 8 + 4 + 4 + 8 + 16 + 16),
    ],
)
def test_what_each_policy_keeps_of_a_token_and_layer(toy, remat, kept):
    # one device, two layers, 256 tokens, 2 bytes an element
    assert memory(toy, remat=remat).saved_activations.tolist() == [2 * 256 * 2 * kept]


def test_tensor_splits_heads_features_and_the_stream(toy):
    for remat in REMATS:
        alone, split = memory(toy, remat=remat), memory(toy, remat=remat, mesh={"tensor": 2})
        assert split.saved_activations * 2 == alone.saved_activations


def test_a_layer_by_hand_where_its_feed_forward_runs_backward(toy):
    # one device, 256 tokens: stream 4096 bytes, a feed-forward tensor 8192, queries 4096; nothing is gathered
    layer = LayerBackward(layout(toy))
    # gate's cotangent beside three more; two normed streams, three of the stream's own, queries and output
    assert layer.feed_forward.tolist() == [4 * 8192 + 2 * 4096 + 3 * 4096 + 2 * 4096]
    assert layer.stream_products.tolist() == [2 * 8192 + 4 * 4096 + 3 * 4096 + 2 * 4096]
    assert (layer.weights + layer.unreduced + layer.attention_weights).tolist() == [0]


def test_attention_by_hand_in_a_zigzag_ring(toy):
    # context 2: 128 tokens: stream 2048, queries 2048, key-value pair 2 x 2 x 128 x 4 = 2048
    layer = LayerBackward(layout(toy, mesh={"context": 2}))
    # 3 operands, an fp32 sum of twice the size, 3 halves copied out and one back; the normed stream, three of its own
    # and, heads of 2 being none of cuDNN's, three fp32 blocks of 32 x 32 scores for 4 heads of 4 sequences
    assert layer.attention.tolist() == [2048 * (3 + 2 + 2) + 3 * 4 * 16 * 32 * 32 + 2048 + 3 * 2048]
    # 2 of the kernel, one in flight, a copy, and fp32 gradients of twice the size
    assert layer.keys.tolist() == [2048 * (2 + 2 + 2)]
    contiguous = LayerBackward(layout(toy, mesh={"context": 2}, scheme="ring"))
    assert (layer.attention - contiguous.attention).tolist() == [2048]


def test_gathered_chunks_grow_with_the_ring_that_they_replace(toy):
    pair = LayerBackward(layout(toy, mesh={"context": 4})).pair
    gathered = LayerBackward(layout(toy, mesh={"context": 4}, scheme="all-gather")).keys
    assert gathered.tolist() == (pair * (2 + 3 * 4 + 1)).tolist()


def test_loss_by_hand(toy):
    # one device, chunks of 64 tokens: logits 64 x 32 of 4 + 2 bytes, head 256 of 2 bytes, its fp32 gradient
    loss = Loss(layout(toy, loss_chunk_tokens=64))
    assert loss.logits.tolist() == [64 * 32 * 6 + 2 * 256 + 4 * 256]
    # one chunk of all 256 tokens: the gradient of 1024 bytes comes when the logits of 32768 are gone
    assert Loss(layout(toy, loss_chunk_tokens=256)).logits.tolist() == [256 * 32 * 2 + 2 * 256 + 256 * 32 * 4]


def test_the_host_keeps_bf16_in_fp32(llama):
    host = replace(llama, hardware=hardware("cpu-host"))
    mesh = {"context": 4, "tensor": 2}
    assert memory(host, mesh=mesh).saved_activations == 2 * memory(llama, mesh=mesh).saved_activations
    assert memory(host, mesh=mesh).params == memory(llama, mesh=mesh).params


def test_on_tpu_an_embedding_of_its_own_is_added_up_whole(llama):
    """V D / t = 64128 x 4096 elements in fp32 over microbatches; in the loss logits, the bf16 head, its gradient."""
    tpu = replace(llama, hardware=hardware("tpu-v5p-64"))
    mesh, table = {"context": 16, "tensor": 2}, 64128 * 4096
    full = memory(tpu, mesh=mesh, microbatches=16).phases()
    assert {float(held["collective_buffers"][0]) for _, held in full} == {4 * table}
    assert float(dict(full)["loss"]["logits_loss"][0]) == 6 * table + 4 * 2048 * 64128
    parts, _, phase = memory(tpu, mesh=mesh, microbatches=16).parts()
    assert (PHASES[phase[0]], parts["collective_buffers"][0]) == ("loops", 4 * table)
    assert memory(tpu, mesh=mesh).parts()[0]["collective_buffers"].tolist() == [0.0]
    tied = replace(tpu, model=model("llama3.2-1b"))
    assert memory(tied, mesh=mesh, microbatches=16).parts()[0]["collective_buffers"].tolist() == [0.0]


@settings(deadline=None)
@given(st.sampled_from(REMATS), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 4]))
def test_parts_are_those_of_the_largest_moment(toy, remat, context, tensor, microbatches):
    held = memory(toy, remat=remat, mesh={"context": context, "tensor": tensor}, microbatches=microbatches)
    parts, total, phase = held.parts()
    assert set(parts) == set(keys(STEP_MEMORY))
    moments = {name: float(sum(sizes.values())[0]) for name, sizes in held.phases()}
    assert moments[PHASES[phase[0]]] == max(moments.values())
    assert sum(parts.values())[0] == pytest.approx(float(total[0]))


@settings(deadline=None)
@given(st.sampled_from(REMATS), st.sampled_from([1, 2, 8, 64]), st.sampled_from([2, 4]))
def test_longer_sequences_and_more_saved_tensors_never_need_less(llama, remat, context, factor):
    longer = replace(llama, workload=llama.workload.model_copy(update={"seq_len": factor * llama.workload.seq_len}))
    mesh = {"context": context}
    assert memory(longer, remat=remat, mesh=mesh).parts()[1] > memory(llama, remat=remat, mesh=mesh).parts()[1]
    least = memory(llama, remat="full", mesh=mesh).saved_activations
    assert memory(llama, remat=remat, mesh=mesh).saved_activations >= least


def test_more_microbatches_need_less_until_their_sum_of_gradients_weighs(llama):
    totals = [memory(llama, mesh={"context": 16, "tensor": 2}, microbatches=m).parts()[1][0] for m in (1, 2, 4, 8, 16)]
    assert totals == sorted(totals, reverse=True)
    assert np.diff(totals)[0] < np.diff(totals)[-1] < 0


def test_the_limit_by_hand(llama):
    # GB200 has 184.3 GiB: 0.95 x (0.8 x 198e9 - arguments) + arguments, less what is on the host
    one = layout(llama, mesh={"context": 8, "tensor": 2}, microbatches=16, remat="offload-layer-in")
    hbm = llama.hardware.device.hbm_bytes.value
    away = 32 * 2 * 4096 * 262144 / 16
    assert limit_bytes(one, arguments=np.array([1e9])) == pytest.approx(0.95 * (0.8 * hbm - 1e9) + 1e9 - away)
    tpu = replace(llama, hardware=hardware("tpu-v5p-64"))
    assert np.isinf(limit_bytes(layout(tpu), arguments=np.array([1e9])))


@pytest.mark.parametrize(("remat", "wide"), [("full", 4), ("save-all", 4)])
def test_above_the_limit_a_recomputed_feed_forward_has_three_tensors(toy, remat, wide):
    policy = layout(toy, mesh={"context": 2}, remat=remat)
    roomy, tight = LayerBackward(policy), LayerBackward(policy, squeezed=True)
    spared = roomy.feed_forward - tight.feed_forward
    normed, product = roomy._normed * roomy.stream, 3 * roomy.wide + roomy._normed * roomy.stream
    assert roomy.feed_forward[0] >= wide * roomy.wide[0]
    assert spared == pytest.approx(max(wide * roomy.wide[0] + normed[0] - product[0], 0.0) * (remat == "full"))
