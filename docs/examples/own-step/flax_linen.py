"""Flax linen with optax: a TrainState whose arrays are sharded over fsdp by their largest dimension. It is not donated."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from jax.sharding import PartitionSpec as P

from lcplan.step import abstract, abstract_state

LCPLAN = {
    "axes": {"replica": "batch", "fsdp": "batch and state"},
    "knobs": {"remat": ["none", "full"], "optimizer": ["adamw", "adafactor"]},
    "rules": {"global_batch % (replica * fsdp) == 0": "every rank needs whole sequences"},
}
DIM, HEADS, HIDDEN, LAYERS, VOCAB = 1024, 16, 4096, 6, 32768
OPTIMIZERS = {"adamw": optax.adamw, "adafactor": optax.adafactor}


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        batch, length, _ = x.shape
        y = nn.RMSNorm()(x)
        heads = jnp.split(nn.Dense(3 * DIM, use_bias=False, dtype=jnp.bfloat16)(y), 3, axis=-1)
        query, key, value = (part.reshape(batch, length, HEADS, DIM // HEADS) for part in heads)
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + nn.Dense(DIM, use_bias=False, dtype=jnp.bfloat16)(attended.reshape(batch, length, DIM))
        y = nn.silu(nn.Dense(HIDDEN, use_bias=False, dtype=jnp.bfloat16)(nn.RMSNorm()(x)))
        return x + nn.Dense(DIM, use_bias=False, dtype=jnp.bfloat16)(y)


class Model(nn.Module):
    remat: bool

    @nn.compact
    def __call__(self, tokens):
        embedding = nn.Embed(VOCAB, DIM)
        x = embedding(tokens).astype(jnp.bfloat16)
        block = nn.remat(Block) if self.remat else Block
        for _ in range(LAYERS):
            x = block()(x)
        return embedding.attend(x).astype(jnp.float32)


def build(mesh, strategy, workload):
    model = Model(strategy["remat"] == "full")
    batch = (workload["global_batch"], workload["seq_len"])

    def init(key):
        params = model.init(key, jnp.zeros((1, batch[1]), jnp.int32))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=OPTIMIZERS[strategy["optimizer"]](3e-4))

    def spec(path, shape):
        dims = [dim for dim, size in enumerate(shape) if size % mesh.shape["fsdp"] == 0 and size > 1]
        widest = max(dims, key=lambda dim: shape[dim], default=None)
        return P(*("fsdp" if dim == widest else None for dim in range(len(shape))))

    def step(state, tokens):
        def loss(params):
            logits = state.apply_fn({"params": params}, tokens)
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

        value, gradients = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradients), value

    state = abstract_state(init, jax.random.key(0), mesh=mesh, spec=spec)
    return jax.jit(step), (state, abstract(batch, jnp.int32, mesh=mesh, spec=P(("replica", "fsdp"))))
