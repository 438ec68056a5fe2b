"""The whole step: states of any mesh train alike, the loss falls, shards lie where they should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.train.step import build_step

MODEL = ModelSpec(name="to train", layers=2, d_model=32, d_ff=48, heads=4, kv_heads=2, head_dim=8, vocab=64)
STEPS = 3


def build(strategy):
    workload = Workload(seq_len=32, global_batch=4, precision="fp32")
    return build_step(StepSpec(MODEL, workload, strategy, "blockwise"), build_mesh(strategy, jax.devices()[: strategy.devices]))


def trained(strategy):
    step = build(strategy)
    state, batch = step.init(jax.random.key(0)), step.example_batch(jax.random.key(1))
    losses = []
    for _ in range(STEPS):
        state, metrics = step.jitted(state, batch)
        losses.append(float(metrics.loss))
    return state, losses


def test_a_mesh_trains_as_one_device_does():
    one, one_losses = trained(Strategy(mesh=Mesh(), gather_dtype="fp32"))
    many, many_losses = trained(Strategy(mesh=Mesh(context=2, fsdp=2, tensor=2), gather_dtype="fp32"))
    assert one_losses == pytest.approx(many_losses, rel=1e-5)
    assert one_losses[0] > one_losses[1] > one_losses[2]
    assert int(many.step) == STEPS
    for a, b in zip(*(map(np.asarray, jax.tree.leaves(state.params)) for state in (one, many)), strict=True):
        assert np.linalg.norm(a - b) < 1e-4 * np.linalg.norm(a)  # AdamW divides by small numbers


def test_shards_lie_where_step_md_says():
    step = build(Strategy(mesh=Mesh(context=2, fsdp=2, tensor=2), gather_dtype="fp32", moments_dtype="bf16"))
    state = step.init(jax.random.key(0))
    local = jax.tree.map(lambda x: x.addressable_shards[0].data.shape, nnx.to_pure_dict(state.params))
    assert local["embedding"] == (32, 8)  # V/tensor D/(fsdp, context)
    assert local["head"] == (32, 8)
    assert local["layers"]["attention"]["query"] == (2, 8, 2, 8)  # L D/(fsdp, context) N/tensor H
    assert local["layers"]["attention"]["key_value"] == (2, 8, 2, 1, 8)  # L D/(fsdp, context) 2 K/tensor H
    assert local["layers"]["attention"]["out"] == (2, 8, 2, 8)
    assert local["layers"]["feed_forward"]["down"] == (2, 8, 24)  # L D/(fsdp, context) F/tensor
    assert local["layers"]["attention"]["norm"] == (2, 32)  # replicated
    for shape, leaf in zip(jax.tree.leaves(step.abstract_arguments()[0]), jax.tree.leaves(state), strict=True):
        assert (shape.shape, shape.dtype, shape.sharding) == (leaf.shape, leaf.dtype, leaf.sharding)
    moments = [leaf.dtype for leaf in jax.tree.leaves(state.optimizer) if leaf.ndim]
    assert set(moments) == {jnp.dtype(jnp.bfloat16)}


def test_zigzag_batch_holds_each_tokens_successor():
    step = build(Strategy(mesh=Mesh(context=4), scheme="ring-zigzag", gather_dtype="fp32"))
    tokens, targets = (np.asarray(x) for x in step.example_batch(jax.random.key(1))[:2])
    assert np.array_equal(targets[:, 0:3], tokens[:, 1:4])  # within a half chunk of four
    assert np.array_equal(targets[:, 3], tokens[:, 8])  # rank 0's first half is followed by rank 1's first half


def test_a_mesh_of_the_wrong_size_is_refused():
    with pytest.raises(BadInputError, match="needs 4 devices; 3 were given"):
        build_mesh(Strategy(mesh=Mesh(context=4)), jax.devices()[:3])
