"""Every part of a step's memory, worked by hand for the small step of ``hand_cases``."""

import pytest
from hand_cases import HAND, layout

from cost_models.memory.liveness import LayerBackward
from cost_models.memory.loss import Loss
from cost_models.memory.parts import StepMemory
from cost_models.memory.plain_jax import PlainMemory, device_gap_bytes

STREAM, WIDE, QUERIES, PAIR = 4096, 8192, 8192, 8192
"""Of 256 tokens in bf16: D 8, F 16, N H 16, keys and values 2 x 8."""


def near(value):
    return pytest.approx([value], rel=1e-12)


def layer(**fields):
    return LayerBackward(layout(**fields))


def moment(name, **fields):
    return dict(StepMemory(layout(**fields)).phases())[name]


def test_state_is_12_bytes_a_parameter():
    held = StepMemory(layout())
    assert (held.params, held.optimizer) == (near(4 * 2088), near(8 * 2088))
    assert StepMemory(layout(fsdp=2)).params == near(4 * (2048 / 2 + 40))


def test_batch_is_two_or_three_int32_of_a_token():
    assert StepMemory(layout()).batch == near(8 * 256)
    assert StepMemory(layout(microbatches=2)).batch == near(8 * 256)
    assert StepMemory(layout(workload={"document_len": 16})).batch == near(12 * 256)


def test_saved_activations_are_streams_and_document_ids():
    assert StepMemory(layout()).saved_activations == near(2 * STREAM)
    # ids of the 128 tokens of each of two ranks, on both
    packed = StepMemory(layout(context=2, workload={"document_len": 16}))
    assert packed.saved_activations == near(2 * STREAM / 2 + 4 * 128 * 2)


def test_gradients_of_earlier_microbatches_are_there_in_the_loss():
    # all parameters, and the head once more in the order of its product
    assert moment("loss")["grads"] == near(0)
    assert moment("loss", microbatches=2)["grads"] == near(4 * (2088 + 256))
    tied = HAND.model_copy(update={"tied_embeddings": True})
    assert moment("loss", spec=tied, microbatches=2)["grads"] == near(4 * (2088 - 256))


def test_gradients_of_the_layers_and_the_head():
    # 2 x 768 matrices, 2 x 16 vectors of layers, the head's 256; the embedding's 256 last; all 2088 in the update
    assert moment("feed_forward_backward")["grads"] == near(4 * (1536 + 32 + 256))
    assert moment("embedding_backward")["grads"] == near(4 * (1536 + 32 + 256 + 256))
    assert moment("update")["grads"] == near(4 * 2088)


def test_the_working_set_where_the_feed_forward_runs_backward():
    # full: both normed streams again; gate, up and two cotangents; three streams; queries and output
    assert layer().feed_forward == near(4 * WIDE + 2 * STREAM + 3 * STREAM + 2 * QUERIES)
    assert layer(remat="save-all").feed_forward == near(4 * WIDE + 3 * STREAM + 2 * QUERIES)
    # tensor 2 gathers the cotangent; with a narrow feed-forward (4 features, 1024 bytes) that moment is the larger
    narrow = HAND.model_copy(update={"d_ff": 4})
    shared = 3 * STREAM / 2 + 2 * QUERIES / 2
    assert layer(spec=narrow, tensor=2).feed_forward == near(3 * 1024 + 2 * STREAM + STREAM + shared)
    assert layer(spec=narrow, tensor=2, remat="save-all").feed_forward == near(4 * 1024 + STREAM + shared)
    assert layer(tensor=2).stream_products == near(2 * WIDE / 2 + 4 * STREAM + shared)


def test_the_working_set_where_attention_runs_backward():
    # three operands and a query gradient; the normed stream; three streams
    assert layer().attention == near(4 * QUERIES + STREAM + 3 * STREAM)
    # a ring of two: half of everything, and an fp32 sum; zigzag copies halves
    assert layer(context=2, scheme="ring").attention == near((4 + 2) * QUERIES / 2 + 4 * STREAM / 2)
    assert layer(context=2, scheme="ring-zigzag").attention == near((5 + 2) * QUERIES / 2 + 4 * STREAM / 2)


def test_a_window_pads_operands_where_cudnn_takes_as_many_queries_as_keys():
    # context 4 on 1024 tokens: chunks of 256; a window of 129 needs 128 tokens of the chunk before: half as many again
    spec = HAND.model_copy(update={"sliding_window": 129})
    fields = {"spec": spec, "context": 4, "scheme": "ring", "workload": {"seq_len": 1024, "global_batch": 1}}
    found = layer(**fields)
    assert found.attention == near((4 + 3 * 1.5) * QUERIES + STREAM + 3 * STREAM)
    assert found.keys == near(PAIR * (2 + 1 + 2 * 0.5))
    whole = layer(**{**fields, "context": 1, "workload": {"seq_len": 256, "global_batch": 1}})
    assert (whole.attention, whole.keys) == (near(4 * QUERIES + 4 * STREAM), near(PAIR * 2))


def test_keys_and_values_of_each_scheme():
    # a rank alone: operands and gradients. A ring: a chunk in flight, a copy, fp32 gradients. All-gather: every rank's
    assert layer().keys == near(2 * PAIR)
    assert layer().keys_at_rest == near(PAIR)
    assert layer(context=2, scheme="ring").keys == near((2 + 4) * PAIR / 2)
    assert layer(context=2, scheme="ring").keys_at_rest == near(2 * PAIR / 2)
    assert layer(context=2, scheme="all-gather").keys == near((2 + 3 * 2 + 1) * PAIR / 2)
    # ulysses of two with one key/value head: the copy is not kept
    assert layer(context=2, scheme="ulysses").pair == near(PAIR / 2)


def test_gathered_weights_and_unreduced_gradients():
    found = layer(fsdp=2)
    assert found.weights == near(2 * 768)
    assert found.attention_weights == near(2 * (128 + 64 + 64))
    assert found.unreduced == near(4 * (768 + 128))
    assert found.attention_unreduced == near(4 * (768 + 3 * 128 + 128))
    assert found.waiting == near(4 * 768)
    alone = layer()
    for held in (alone.weights, alone.attention_weights, alone.unreduced, alone.attention_unreduced, alone.waiting):
        assert held == near(0)


def test_a_host_waits_with_fp32_weights_too():
    assert layer(machine="cpu-host", fsdp=2).waiting == near((4 + 4) * 768)


def test_one_iteration_of_a_tpus_loop():
    # splash: a head of 128; fsdp 2: one sequence of 1024 tokens. Stream 2 x 1024 x 8, wide 2 x 1024 x 64, queries, keys and
    # values 2 x 1024 x 128 each
    stream, wide, queries = 16384, 131072, 262144
    spec = HAND.model_copy(update={"heads": 1, "kv_heads": 1, "head_dim": 128, "d_ff": 64})
    fields = {"machine": "tpu-v5p-64", "workload": {"seq_len": 1024, "global_batch": 2}}
    found = layer(spec=spec, fsdp=2, **fields)
    feed_forward = 4 * wide + 2 * stream + 3 * stream + 2 * queries
    # queries and output once more, keys and values at rest, a layer's gathered weights, down's gradient
    matrices = 4 * 8 * 128 + 3 * 8 * 64
    assert found.loop == near(feed_forward + 2 * queries + 2 * queries + 2 * matrices + 4 * 8 * 64)
    assert found.waiting == near(stream + 2 * matrices / 2)
    # tensor 2, twice the heads and features: the same on each device, half of the three streams, and down's cotangent gathered
    twice = spec.model_copy(update={"heads": 2, "kv_heads": 2, "d_ff": 128})
    split = layer(spec=twice, tensor=2, machine="tpu-v5p-64", workload={"seq_len": 1024, "global_batch": 1})
    feed_forward = 4 * wide + 2 * stream + 1.5 * stream + 2 * queries
    assert split.loop == near(feed_forward + 2 * queries + 2 * queries + stream)


def test_logits_of_a_gpu():
    # chunks of 64: fp32 logits and a bf16 cotangent, the bf16 head, its fp32 gradient
    assert Loss(layout(loss_chunk_tokens=64)).logits == near(6 * 64 * 32 + 2 * 256 + 4 * 256)
    # one chunk: the gradient (1024 bytes) comes when the logits (32768) are gone
    assert Loss(layout(loss_chunk_tokens=256)).logits == near(6 * 256 * 32 + 2 * 256)


def test_logits_of_a_tpu_and_of_a_host():
    tpu = {"machine": "tpu-v5p-64"}
    # 32 words fill no tile of 128, so the cotangent is a buffer of its own
    assert Loss(layout(**tpu, loss_chunk_tokens=64)).logits == near((4 + 2) * 64 * 32 + (2 + 4) * 256)
    assert Loss(layout(**tpu, loss_chunk_tokens=256)).logits == near((4 + 2) * 256 * 32 + (2 + 4) * 256)
    host = {"machine": "cpu-host"}
    assert Loss(layout(**host, loss_chunk_tokens=64)).logits == near(3 * 4 * 64 * 32 + (2 + 4 + 4) * 256)
    assert Loss(layout(**host, loss_chunk_tokens=256)).logits == near(2 * 4 * 256 * 32 + 4 * 256)


def test_streams_and_the_embeddings_gradient():
    # output, normed copy and cotangent; with tensor 2 a chunk of the latter two is gathered
    assert Loss(layout()).streams == near(3 * STREAM)
    assert Loss(layout(tensor=2, loss_chunk_tokens=64)).streams == near(3 * STREAM / 2 + 2 * STREAM / 4)
    assert Loss(layout(fsdp=2)).embedding == near(4 * 256)
    assert Loss(layout(fsdp=2, reduce_dtype="bf16")).embedding == near(2 * 256)


def test_collective_buffers_of_a_tpu_hold_the_embeddings_sum_over_microbatches():
    resident = {"machine": "tpu-v5p-64", "fsdp": 2}
    assert moment("loss", **resident)["gathered_weights"] == near(2 * (1536 / 2 + 32))
    assert moment("loss", **resident)["collective_buffers"] == near(0)
    assert moment("loss", **resident, microbatches=2)["collective_buffers"] == near(4 * 256)


def test_plain_jax_keeps_all_that_a_derivative_reads():
    # save-all: bf16 of 6 x 16, 3 x 16, 2 x 8 and 2 x 8 features, fp32 of 4 x 8, and cast weights of 768
    everything = PlainMemory(layout(remat="save-all")).saved_activations
    assert everything == near(2 * (256 * (2 * (96 + 48 + 16 + 16) + 4 * 4 * 8) + 2 * 768))
    assert PlainMemory(layout(remat="full")).saved_activations == near(2 * STREAM)


def test_plain_jax_fills_gradients_early_where_layers_run_again():
    early = PlainMemory(layout(remat="full", loss_chunk_tokens=256))._outside()["loss"]
    late = PlainMemory(layout(remat="save-all", loss_chunk_tokens=256))._outside()["loss"]
    assert late["grads"] == near(4 * 256)
    assert early["grads"] == near(4 * 256 + 4 * (1536 + 32))
    assert late["working_set"] == near(3 * STREAM)
    assert late["logits_loss"] == near(2 * 4 * 256 * 32 + 3 * 2 * 256)
    assert device_gap_bytes(1000, 1000) == 2e6 + 0.48e9
