"""Every part of a PyTorch step's memory, worked by hand for the small step of ``hand_cases``."""

import pytest
from hand_cases import HAND, layout

from cost_models.estimate import pool_slack_bytes
from cost_models.memory.pytorch import WORKSPACE_BYTES, TorchMemory

STREAM, WIDE, QUERIES, PAIR = 4096, 8192, 8192, 8192
LOG_SUM_EXP = 4 * 256 * 2
TORCH = {"runtime": "torch", "attention": "flash", "loss": "whole"}


def near(value):
    return pytest.approx([value], rel=1e-12)


def torch(program=None, **fields):
    return TorchMemory(layout(program={**TORCH, **(program or {})}, **{"remat": "save-all", **fields}))


def test_state():
    assert (torch().params, torch().optimizer, torch().grads) == (near(4 * 2088), near(8 * 2088), near(4 * 2088))
    assert torch({"compute_copy": True}).params == near(6 * 2088)
    assert torch({"pure_bf16": True}).grads == near(2 * 2088)
    assert torch(fsdp=2).params == near(4 * 2088 / 2)


def test_what_autograd_keeps_of_a_layer():
    # four streams; queries, output, keys and values; log-sum-exp in fp32; gate, activated gate times up, and up
    kept = 4 * STREAM + 2 * QUERIES + PAIR + LOG_SUM_EXP
    assert torch().layer_activations == near(kept + 3 * WIDE)
    assert torch().saved_activations == near(2 * (kept + 3 * WIDE))
    assert torch({"elementwise": "eager"}).layer_activations == near(kept + 4 * WIDE)
    plain = HAND.model_copy(update={"mlp": "plain"})
    assert torch(spec=plain).layer_activations == near(kept + 2 * WIDE)
    # a mask of a byte for each of two sums with the stream; inputs of norms of queries and keys; norms written out in fp32
    assert torch({"dropout": True}).layer_activations == near(kept + 3 * WIDE + 2 * 256 * 8)
    normed = HAND.model_copy(update={"qk_norm": True})
    heads = 256 * (16 + 8)
    assert torch(spec=normed).layer_activations == near(kept + 3 * WIDE + 2 * heads)
    assert torch({"norms": "kept"}, spec=normed).layer_activations == near(kept + 3 * WIDE + 6 * heads + 4 * 2 * 256 * 8)


def test_unfused_attention_keeps_five_bytes_a_score():
    unfused = torch({"attention": "unfused"}).layer_activations
    assert unfused - torch().layer_activations == near(5 * 256 * 64 * 2)
    again = torch({"attention": "unfused", "recompute_scores": True}).layer_activations
    assert again == near(float(torch().layer_activations[0]))


def test_the_loss():
    held = torch().phases()["loss"]
    # bf16 logits, an fp32 copy, softmax and gradient: 12 bytes a logit; fused 8; Megatron's 6; kept ones on top
    assert held["logits_loss"] == near(12 * 256 * 32)
    assert torch({"fused_loss": True}).phases()["loss"]["logits_loss"] == near(8 * 256 * 32)
    assert torch({"logit_bytes": 6.0, "kept_logit_bytes": 2.0}).phases()["loss"]["logits_loss"] == near(8 * 256 * 32)
    assert held["working_set"] == near(2 * STREAM)
    assert held["gathered_weights"] == near(0)
    assert held["collective_buffers"] == near(2 * 256)
    split = torch(fsdp=2).phases()["loss"]
    assert (split["gathered_weights"], split["collective_buffers"]) == (near(2 * 256), near((2 + 4) * 256))
    assert torch({"gradient_sums": "in-products"}, fsdp=2).phases()["loss"]["collective_buffers"] == near(4 * 256)


def test_a_layers_backward_pass():
    held = torch().phases()
    # nothing is made again: cotangents of gate and up; of queries' and of keys' and values' sizes; two streams
    assert held["feed_forward_backward"]["working_set"] == near(2 * WIDE + 2 * STREAM)
    assert held["attention_backward"]["working_set"] == near(2 * (QUERIES + PAIR / 2) + 2 * STREAM)
    # two layers' weights gathered
    assert torch(fsdp=2).phases()["feed_forward_backward"]["gathered_weights"] == near(2 * 2 * 768)
    assert held["feed_forward_backward"]["gathered_weights"] == near(0)


def test_a_layer_that_is_made_again():
    full = torch(remat="full")
    made = float(full.layer_activations[0]) - STREAM
    held = full.phases()
    assert full.saved_activations == near(2 * STREAM)
    assert held["feed_forward_backward"]["working_set"] == near(made + 2 * WIDE + 2 * STREAM)
    assert held["attention_backward"]["working_set"] == near(made - 3 * WIDE + 2 * (QUERIES + PAIR / 2) + 2 * STREAM)


def test_what_context_ranks_exchange():
    # a ring of two, 128 tokens: keys and values in hand and in flight in bf16, gradients in fp32; the queries' gradient
    ring = torch(context=2, scheme="ring").phases()["attention_backward"]["kv_ring"]
    assert ring == near(2 * (2 + 4) * 2 * 128 * 8 + 4 * 128 * 16)
    gathered = torch(context=2, scheme="all-gather").phases()["attention_backward"]["kv_ring"]
    assert gathered == near(2 * 2 * 2 * 2 * 128 * 8)


def test_the_update():
    assert torch({"update_bytes": 8.0}, fsdp=2).phases()["update"]["working_set"] == near(8 * 2088 / 2)


def test_workspaces_and_the_allocators_pool():
    # two of 4096 KiB and eight of 16 KiB: 8519680 bytes; 32 MiB from Hopper on
    assert WORKSPACE_BYTES == {"before": 8519680.0, "hopper": 33554432.0}
    parts, total, _ = torch().parts()
    assert total == near(float(sum(part[0] for part in parts.values())))
    slack = pool_slack_bytes(layout(program=TORCH), total)
    assert slack == near(0.06 * float(total[0]))
    older = torch(machine="dgx-a100-80")
    assert torch()._workspace - older._workspace == 33554432 - 8519680
    assert parts["batch"] == near(16 * 256)
